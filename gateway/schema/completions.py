"""POST /v1/completions: the body."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from domain.prefix import prefix_hashes
from gateway.schema.ask import Ask
from gateway.schema.fields import MAX_CHOICES, Sampling, TokenId, canonical_tier, check_sampling, invalid
from gateway.schema.reading import read_body

# What the endpoint does when the field is left out, at OpenAI and in the engine alike.
DEFAULT_MAX_TOKENS = 16
_BYTES_A_TOKEN = 4

Prompt = str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]


class CompletionsRequest(Sampling, kw_only=True):
    """Every field of OpenAI's, and vLLM's that harm nobody else. ``docs/reference/api.md`` says what each one does."""

    prompt: Prompt
    best_of: Annotated[int, Meta(ge=1, le=20)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    suffix: str | None = None


_DECODER = msgspec.json.Decoder(CompletionsRequest)


def parse_completions(body: bytes) -> Ask:
    """Read and check a completions request.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    request = read_body(_DECODER, body)
    check_sampling(request)
    _refuse_unsupported(request)
    prompts, prompt_bytes = _measure(request.prompt)
    choices = prompts * (request.n or 1)
    if choices > MAX_CHOICES:
        raise invalid("prompt", f"Prompts times 'n' is {choices}, more than {MAX_CHOICES}. Split the request.")
    return Ask(
        endpoint="completions",
        model=request.model,
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        service_tier=canonical_tier(request.service_tier),
        max_tokens=DEFAULT_MAX_TOKENS if request.max_tokens is UNSET else request.max_tokens,
        choices=choices,
        prompt_bytes=prompt_bytes,
        timeout_s=request.timeout,
        prefix=prefix_hashes(_first_prompt(request.prompt)),
        request=request,
    )


def _first_prompt(prompt: str | list[str | int | list[int]]) -> Iterator[bytes]:
    """The prompt, or the first of several; token ids as 4 bytes each."""
    first = prompt[0] if isinstance(prompt, list) and not isinstance(prompt[0], int) else prompt
    if isinstance(first, str):
        yield first.encode()
    elif isinstance(first, list):
        yield b"".join(token.to_bytes(4, "big") for token in first if isinstance(token, int))


def _refuse_unsupported(request: CompletionsRequest) -> None:
    if request.suffix is not None:
        raise invalid("suffix", "This model cannot fill in before a suffix. Remove 'suffix'.", "unsupported_parameter")
    if request.best_of is None:
        return
    if request.best_of < (request.n or 1):
        raise invalid("best_of", f"Invalid 'best_of': it must be at least 'n' ({request.n or 1}).")
    if request.best_of > (request.n or 1):
        raise invalid(
            "best_of", "'best_of' larger than 'n' is not supported. Raise 'n' and choose yourself.", "unsupported_value"
        )


def _measure(prompt: str | list[str | int | list[int]]) -> tuple[int, int]:
    """How many prompts there are, and their bytes; the forms of a prompt must not be mixed."""
    if isinstance(prompt, str):
        return 1, len(prompt.encode())
    kinds = set(map(type, prompt))
    if len(kinds) != 1:
        raise invalid("prompt", "Invalid 'prompt': mix neither texts nor token ids nor lists of token ids.")
    if kinds == {int}:
        return 1, len(prompt) * _BYTES_A_TOKEN
    sizes = [_size(index, item) for index, item in enumerate(prompt)]
    return len(sizes), sum(sizes)


def _size(index: int, item: str | int | list[int]) -> int:
    if isinstance(item, str):
        return len(item.encode())
    if isinstance(item, list) and item:
        return len(item) * _BYTES_A_TOKEN
    raise invalid(f"prompt[{index}]", f"Invalid 'prompt[{index}]': empty array. Give at least one token id.")
