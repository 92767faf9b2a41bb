"""From a checked request to the prompts in it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.schema import ChatRequest, CompletionsRequest, EmbeddingsRequest
from workers.tokenization.conversation import Chat
from workers.tokenization.counter import Count, Counter

Request = ChatRequest | CompletionsRequest | EmbeddingsRequest


def count_parts(request: Request) -> int:
    """Messages and tools of a chat, or prompts: each costs some time, however short it is."""
    if isinstance(request, ChatRequest):
        return len(request.messages) + len(request.tools or ())
    given = request.prompt if isinstance(request, CompletionsRequest) else request.input
    return 1 if isinstance(given, str) or isinstance(given[0], int) else len(given)


def begin(counter: Counter, request: Request, salt: bytes) -> list[Count]:
    """One count for each prompt of the request, as far as it is known without encoding.

    Raises:
        CannotRender: the model does not take this chat.
    """
    if isinstance(request, ChatRequest):
        return [counter.chat(_chat(request), salt)]
    given = request.prompt if isinstance(request, CompletionsRequest) else request.input
    special = not isinstance(request, CompletionsRequest) or request.add_special_tokens is not False
    return [
        counter.text(prompt, salt, special=special) if isinstance(prompt, str) else Count(len(prompt))
        for prompt in _prompts(given)
    ]


def _prompts(given: str | list[str | int | list[int]]) -> Iterator[str | list[int]]:
    if isinstance(given, str):
        yield given
    elif isinstance(given[0], int):
        yield [token for token in given if isinstance(token, int)]
    else:
        yield from (prompt for prompt in given if not isinstance(prompt, int))


def _chat(request: ChatRequest) -> Chat:
    tools = msgspec.to_builtins(request.tools) if request.tools else None
    return Chat(
        msgspec.to_builtins(request.messages), tools, _options(request), special=request.add_special_tokens is True
    )


def _options(request: ChatRequest) -> dict[str, Any]:
    options = {**(request.chat_template_kwargs or {}), "add_generation_prompt": request.add_generation_prompt}
    if request.reasoning_effort is not None:
        options["reasoning_effort"] = request.reasoning_effort
        options.setdefault("enable_thinking", request.reasoning_effort != "none")
    return options
