"""The part of a stored prompt that is the same in every request: what comes before its first variable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from domain.prefix import HASH_BYTES
from domain.template import before_variables, variables_of
from gateway.prompts.version import PromptText
from gateway.schema.chat import parse_chat

_ANY_QUESTION = {"role": "user", "content": "."}
"""Chat templates want a question; what comes after the prefix does not matter."""

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix that can be prefilled.

    Attributes:
        body: a chat request that begins with it and wants one token.
        hashes: its names, see :mod:`domain.prefix`.
        size_bytes: of its texts, about.
    """

    body: bytes
    hashes: bytes
    size_bytes: int

    @property
    def last(self) -> bytes:
        """The name of the longest part that has one."""
        return self.hashes[-HASH_BYTES:]


def prefix_of(prompt: PromptText, model: str) -> Prefix | None:
    """The prefix, as a request to ``model``; None if it is too short to have a name: nothing would be gained."""
    messages = _before_variables(msgspec.json.decode(prompt.messages))
    if not messages:
        return None
    alone = parse_chat(_body(messages, model))
    if not alone.prefix:
        return None
    return Prefix(_body([*messages, _ANY_QUESTION], model), alone.prefix, alone.prompt_bytes)


def _body(messages: Sequence[_Json], model: str) -> bytes:
    return msgspec.json.encode({"model": model, "messages": messages, "max_tokens": 1, "temperature": 0})


def _before_variables(messages: Sequence[_Json]) -> list[_Json]:
    kept: list[_Json] = []
    for message in messages:
        content = message.get("content")
        parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content or ()]
        if not variables_of(parts):
            kept.append(message)
            continue
        begun = _text_before(parts)
        return [*kept, {**message, "content": begun}] if begun else kept
    return kept


def _text_before(parts: Sequence[str]) -> str:
    begun = ""
    for part in parts:
        if variables_of([part]):
            return begun + before_variables(part)
        begun += part
    return begun
