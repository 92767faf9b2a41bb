"""POST /v1/embeddings: the body."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.schema.ask import Ask
from gateway.schema.fields import (
    Metadata,
    ModelName,
    ServiceTier,
    Shape,
    Timeout,
    TokenId,
    canonical_tier,
    invalid,
)
from gateway.schema.reading import read_body

MAX_INPUTS = 2048
_BYTES_A_TOKEN = 4

Text = Annotated[str, Meta(min_length=1)]
Input = Text | Annotated[list[Text | TokenId | Annotated[list[TokenId], Meta(min_length=1)]], Meta(min_length=1)]


class EmbeddingsRequest(Shape, kw_only=True):
    """Every field of OpenAI's, and those of ours that say when and how urgently."""

    model: ModelName
    input: Input
    dimensions: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    metadata: Metadata | None = None
    service_tier: ServiceTier | None = None
    timeout: Timeout | None = None
    user: Annotated[str, Meta(max_length=1024)] | None = None


_DECODER = msgspec.json.Decoder(EmbeddingsRequest)


def parse_embeddings(body: bytes) -> Ask:
    """Read and check a request for embeddings.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    request = read_body(_DECODER, body)
    return Ask(
        endpoint="embeddings",
        model=request.model,
        stream=False,
        include_usage=False,
        service_tier=canonical_tier(request.service_tier),
        max_tokens=0,
        choices=1,
        prompt_bytes=_measure(request.input),
        timeout_s=request.timeout,
        request=request,
    )


def _measure(given: str | list[str | int | list[int]]) -> int:
    """Bytes of all inputs; their forms must not be mixed."""
    if isinstance(given, str):
        return len(given.encode())
    kinds = set(map(type, given))
    if len(kinds) != 1:
        raise invalid("input", "Invalid 'input': mix neither texts nor token ids nor lists of token ids.")
    if len(given) > MAX_INPUTS and kinds != {int}:
        raise invalid("input", f"Invalid 'input': {len(given)} inputs, more than {MAX_INPUTS}.", "invalid_length")
    return sum(map(_size, given))


def _size(item: str | int | list[int]) -> int:
    if isinstance(item, str):
        return len(item.encode())
    return _BYTES_A_TOKEN * (len(item) if isinstance(item, list) else 1)
