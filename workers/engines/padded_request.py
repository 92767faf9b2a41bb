"""A client's body as rows of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from tokenizers import Tokenizer

from workers.engines.port import Job, RequestRejected

MAX_CHARACTERS_A_TOKEN = 64
"""A longer text is refused unread: finding out its exact tokens would hold up others, and none of it is language."""


class _Body(msgspec.Struct):
    """The fields that an engine reads; the gateway has checked them and refused others."""

    input: str | list[str | int | list[int]]
    dimensions: int | None = None
    encoding_format: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body asks for.

    Attributes:
        inputs: each a text or token ids.
        dimensions: numbers of an embedding that are wanted, at most the model's.
        as_base64: embeddings are wanted as base64 of little-endian float32.
    """

    inputs: Sequence[str | list[int]]
    dimensions: int
    as_base64: bool


class RequestReader:
    """Reads bodies for one model; takes time with long texts, so not on an event loop."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, vocabulary: int, size: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens, self._vocabulary, self._size = max_tokens, vocabulary, size

    def read(self, job: Job) -> Asked:
        """What the body asks for.

        Raises:
            RequestRejected: for another endpoint, or not what this model can do.
        """
        if job.endpoint != "embeddings":
            raise rejection("This model only makes embeddings. Use /v1/embeddings.", "model")
        try:
            body = msgspec.json.decode(job.body, type=_Body)
        except msgspec.DecodeError as error:
            raise rejection(f"The body is not a request for embeddings: {error}", None) from None
        wanted = self._size if body.dimensions is None else body.dimensions
        if not 1 <= wanted <= self._size:
            raise rejection(
                f"This model's embeddings have {self._size} dimensions at most, not {wanted}.", "dimensions"
            )
        return Asked(_inputs(body.input), wanted, body.encoding_format == "base64")

    def rows(self, asked: Asked, first: int, many: int) -> list[list[int]]:
        """Token ids of ``many`` inputs from ``first`` on; texts get the model's special tokens, token ids do not.

        Raises:
            RequestRejected: too long for the model, or no token of it.
        """
        return [self._row(item, index) for index, item in enumerate(asked.inputs[first : first + many], start=first)]

    def _row(self, item: str | list[int], index: int) -> list[int]:
        if isinstance(item, str):
            if len(item) > MAX_CHARACTERS_A_TOKEN * self._max_tokens:
                raise self._too_long(index, f"{len(item)} characters")
            row: list[int] = self._tokenizer.encode(item).ids
        else:
            row = item
            if not all(0 <= token < self._vocabulary for token in row):
                raise rejection(f"Input {index} holds token ids outside 0 to {self._vocabulary - 1}.", "input")
        if len(row) > self._max_tokens:
            raise self._too_long(index, f"{len(row)} tokens")
        if not row:
            raise rejection(f"Input {index} is empty.", "input")
        return row

    def _too_long(self, index: int, found: str) -> RequestRejected:
        message = (
            f"This model's maximum context length is {self._max_tokens} tokens. However, input {index} has {found}."
        )
        return rejection(message, "input", "context_length_exceeded")


def rejection(message: str, param: str | None, code: str | None = None) -> RequestRejected:
    """A 400 with OpenAI's error object."""
    error: dict[str, Any] = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return RequestRejected(400, error)


def _inputs(given: str | list[str | int | list[int]]) -> Sequence[str | list[int]]:
    if isinstance(given, str):
        return [given]
    ids = [item for item in given if isinstance(item, int)]
    if ids and len(ids) != len(given):
        raise rejection("The inputs mix token ids with texts.", "input")
    return [ids] if ids else [item for item in given if not isinstance(item, int)]
