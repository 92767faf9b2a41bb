"""POST /v1/chat/completions: the body."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from domain.prefix import prefix_hashes
from gateway.schema.ask import Ask
from gateway.schema.fields import Count, Sampling, canonical_tier, check_depth, check_sampling, invalid
from gateway.schema.messages import Assistant, AudioReference, Message, message_texts, text_bytes
from gateway.schema.prompt_use import PromptUse
from gateway.schema.reading import read_body
from gateway.schema.tools import NamedTool, ToolChoice, Tools

_FORBIDDEN_TEMPLATE_KWARGS = frozenset({"chat_template", "tokenize", "return_dict", "tokenizer", "conversation"})


class ChatRequest(Sampling, kw_only=True):
    """Every field of OpenAI's, and vLLM's that harm nobody else. ``docs/reference/api.md`` says what each one does.

    A stored ``prompt`` is replaced by its messages before the rest is read, see :mod:`gateway.prompts.expansion`.
    """

    messages: Annotated[list[Message], Meta(min_length=1, max_length=4096)]
    audio: dict[str, Any] | None = None
    function_call: Literal["none", "auto"] | dict[str, Any] | None = None
    functions: list[dict[str, Any]] | None = None
    logprobs: bool | None = None
    max_completion_tokens: Count | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    moderation: dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    prediction: dict[str, Any] | None = None
    prompt: PromptUse | msgspec.UnsetType = UNSET
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    safety_identifier: Annotated[str, Meta(max_length=1024)] | None = None
    store: bool | None = None
    tool_choice: ToolChoice | None = None
    tools: Tools | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    web_search_options: dict[str, Any] | None = None

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, str]] | None = None
    include_reasoning: bool = True
    thinking_token_budget: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None


_DECODER = msgspec.json.Decoder(ChatRequest)


def parse_chat(body: bytes) -> Ask:
    """Read and check a chat request.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    request = read_body(_DECODER, body)
    check_sampling(request)
    _refuse_unsupported(request)
    _check_limits(request)
    check_messages(request.messages)
    if request.tools is not None or request.tool_choice is not None:
        _check_tools(request)
    return Ask(
        endpoint="chat",
        model=request.model,
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        service_tier=canonical_tier(request.service_tier),
        max_tokens=request.max_completion_tokens or (None if request.max_tokens is UNSET else request.max_tokens),
        choices=request.n or 1,
        prompt_bytes=_prompt_bytes(request),
        timeout_s=request.timeout,
        prefix=prefix_hashes(_prompt_parts(request)),
        request=request,
    )


def _prompt_parts(request: ChatRequest) -> Iterator[bytes]:
    """What becomes prompt, in the order of chat templates: tools first, then one message after another."""
    if request.tools:
        yield msgspec.json.encode(request.tools)
    for message in request.messages:
        yield b"\x1e" + type(message).__name__.encode() + b"\x1f"
        yield from message_texts(message)


def _prompt_bytes(request: ChatRequest) -> int:
    size = sum(text_bytes(message) for message in request.messages)
    return size + (len(msgspec.json.encode(request.tools)) if request.tools else 0)


def _refuse_unsupported(request: ChatRequest) -> None:
    """Refuse what would change the answer's meaning and cannot be honoured; the rest is ignored by name."""
    if request.modalities is not None and "audio" in request.modalities:
        raise _unsupported("modalities", "This model answers in text only. Remove 'audio' from 'modalities'.")
    if request.web_search_options is not None:
        raise _unsupported("web_search_options", "This model cannot search the web. Remove 'web_search_options'.")
    if request.moderation is not None:
        raise _unsupported("moderation", "Moderation is not offered here. Remove 'moderation'.")
    if request.functions is not None:
        raise _unsupported("functions", "'functions' is the older form. Send 'tools' instead.")
    if request.function_call not in (None, "none"):
        raise _unsupported("function_call", "'function_call' is the older form. Send 'tool_choice' instead.")


def _unsupported(param: str, message: str) -> Exception:
    return invalid(param, message, "unsupported_parameter")


def _check_limits(request: ChatRequest) -> None:
    if request.top_logprobs and not request.logprobs:
        raise invalid("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.")
    if request.max_completion_tokens is not None and request.max_tokens not in (None, UNSET):
        raise invalid(
            "max_tokens",
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported. Keep the second.",
            "invalid_parameter_combination",
        )
    if request.max_completion_tokens is not None and request.min_tokens > request.max_completion_tokens:
        raise invalid("min_tokens", "Invalid 'min_tokens': it must not be larger than 'max_completion_tokens'.")
    if request.chat_template_kwargs:
        _check_template_kwargs(request.chat_template_kwargs)
    if request.continue_final_message and request.add_generation_prompt:
        raise invalid("continue_final_message", "'continue_final_message' needs 'add_generation_prompt' to be false.")


def _check_template_kwargs(kwargs: dict[str, Any]) -> None:
    for name in _FORBIDDEN_TEMPLATE_KWARGS & kwargs.keys():
        raise invalid(f"chat_template_kwargs.{name}", f"'chat_template_kwargs' must not carry '{name}'.")
    check_depth(kwargs, "chat_template_kwargs")


def check_messages(messages: list[Message]) -> None:
    """Check of messages what no single field shows.

    Raises:
        ApiError: 400, with the message at fault.
    """
    for index, message in enumerate(messages):
        if isinstance(message, Assistant) and message.content is None and not _acted(message):
            raise invalid(
                f"messages[{index}].content",
                f"Invalid value for 'messages[{index}].content': expected a string, got null. "
                "An assistant's message without content needs 'tool_calls'.",
            )
        if isinstance(message, Assistant) and isinstance(message.audio, AudioReference):
            raise _unsupported(f"messages[{index}].audio", "This model has no earlier spoken answers. Send the text.")


def _acted(message: Assistant) -> bool:
    return bool(message.tool_calls or message.function_call or message.refusal)


def _check_tools(request: ChatRequest) -> None:
    if request.tools is None:
        raise invalid("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.")
    for index, tool in enumerate(request.tools):
        check_depth(tool.function.parameters, f"tools[{index}].function.parameters")
    names = {tool.function.name for tool in request.tools}
    if isinstance(request.tool_choice, NamedTool) and request.tool_choice.function.name not in names:
        raise invalid("tool_choice.function.name", f"Tool '{request.tool_choice.function.name}' is not among 'tools'.")
