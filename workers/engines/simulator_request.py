"""The simulator's reading of a request body: what is asked, checked against what the model can take."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from domain.simulation.faults import NO_FAULTS, Faults, UnknownFault, parse_faults
from domain.simulation.prompt import chat_prompt, count_tokens
from workers.engines.port import Job, RequestRejected

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Choices = Annotated[int, msgspec.Meta(ge=1, le=128)]
_Top = Annotated[int, msgspec.Meta(ge=0, le=20)]
_TokenIds = list[_Count]


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _CalledFunction(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    function: _CalledFunction


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    function: _Function
    type: str = "function"


class _FunctionName(msgspec.Struct):
    name: str


class _NamedTool(msgspec.Struct):
    function: _FunctionName


class _JsonSchema(msgspec.Struct):
    schema: dict[str, object] | None = None


class _ResponseFormat(msgspec.Struct):
    type: str
    json_schema: _JsonSchema | None = None


class _Common(msgspec.Struct):
    max_tokens: _Positive | None = None
    n: _Choices | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream_options: _StreamOptions | None = None
    metadata: dict[str, object] | None = None
    ignore_eos: bool | None = None
    min_tokens: _Count | None = None
    include_stop_str_in_output: bool | None = None


class _ChatBody(_Common):
    messages: list[_Message] = msgspec.field(default_factory=list)
    max_completion_tokens: _Positive | None = None
    logprobs: bool | None = None
    top_logprobs: _Top | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _NamedTool | None = None
    response_format: _ResponseFormat | None = None


class _CompletionsBody(_Common):
    prompt: str | list[str | _Count | _TokenIds] = ""
    echo: bool | None = None
    logprobs: _Top | None = None
    suffix: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as bytes (four to a token) and its length in tokens; ``text`` is what ``echo`` repeats."""

    data: bytes
    tokens: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the simulator sees it.

    Attributes:
        prompts: one for chat; one or more for completions.
        choices: answers to each prompt.
        max_tokens: bound of one answer's tokens, None for the model's own.
        logprobs: None for none, else the number of alternatives shown for each token.
        tool: name and parameter schema of the function that must be called, or None.
        schema: JSON schema that the answer must satisfy, or None.
    """

    prompts: Sequence[Prompt]
    choices: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stops: Sequence[str] = ()
    keep_stop: bool = False
    seed: int | None = None
    include_usage: bool = False
    echo: bool = False
    logprobs: int | None = None
    tool: tuple[str, object] | None = None
    tool_named: bool = False
    schema: object | None = None
    faults: Faults = NO_FAULTS


def rejected(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> RequestRejected:
    """A refusal in the form of OpenAI's error object."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return RequestRejected(status, error)


def read_request(job: Job, max_model_len: int) -> Asked:
    """Read the body of ``job``.

    Raises:
        RequestRejected: a wrong type or value, an unknown fault, or more tokens than the model can take.
    """
    if job.endpoint == "embeddings":
        raise rejected("This model generates text and has no embeddings.", "model")
    asked = _read_chat(job) if job.endpoint == "chat" else _read_completions(job)
    for prompt in asked.prompts:
        _check_length(prompt, asked, max_model_len, "messages" if job.endpoint == "chat" else "prompt")
    return asked


_CHAT = msgspec.json.Decoder(_ChatBody)
_COMPLETIONS = msgspec.json.Decoder(_CompletionsBody)


def _read_chat(job: Job) -> Asked:
    try:
        body = _CHAT.decode(job.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong_body(error) from error
    if not body.messages:
        raise rejected("'messages' must not be empty.", "messages")
    tool = _forced_tool(body)
    return _asked(
        body,
        prompts=(_render(body),),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        tool=tool,
        tool_named=isinstance(body.tool_choice, _NamedTool),
        schema=None if tool else _schema(body.response_format),
    )


def _read_completions(job: Job) -> Asked:
    try:
        body = _COMPLETIONS.decode(job.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong_body(error) from error
    if body.suffix:
        raise rejected("'suffix' is not supported by this model.", "suffix")
    return _asked(
        body,
        prompts=_prompts(body.prompt),
        max_tokens=body.max_tokens or 16,
        logprobs=body.logprobs,
        echo=bool(body.echo),
    )


def _asked(
    body: _Common,
    *,
    prompts: Sequence[Prompt],
    max_tokens: int | None,
    logprobs: int | None,
    echo: bool = False,
    tool: tuple[str, object] | None = None,
    tool_named: bool = False,
    schema: object | None = None,
) -> Asked:
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        raise rejected("'min_tokens' must not be more than 'max_tokens'.", "min_tokens")
    options = body.stream_options
    return Asked(
        prompts=prompts,
        choices=body.n or 1,
        max_tokens=max_tokens,
        min_tokens=body.min_tokens or 0,
        ignore_eos=bool(body.ignore_eos),
        stops=_stops(body.stop),
        keep_stop=bool(body.include_stop_str_in_output),
        seed=body.seed,
        include_usage=bool(options and options.include_usage),
        echo=echo,
        logprobs=logprobs,
        tool=tool,
        tool_named=tool_named,
        schema=schema,
        faults=_faults(body.metadata),
    )


def _wrong_body(error: Exception) -> RequestRejected:
    found = re.search(r"at `\$\.?([^`]*)`", str(error))
    return rejected(str(error) or "the body is nested too deeply", found[1] if found else None)


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if "" in stops:
        raise rejected("'stop' must not contain an empty string.", "stop")
    return stops


def _faults(metadata: dict[str, object] | None) -> Faults:
    script = (metadata or {}).get("sim")
    if script is None:
        return NO_FAULTS
    if not isinstance(script, str):
        raise rejected("'metadata.sim' must be a string.", "metadata.sim")
    try:
        return parse_faults(script)
    except UnknownFault as error:
        raise rejected(str(error), "metadata.sim") from error


def _forced_tool(body: _ChatBody) -> tuple[str, object] | None:
    choice, tools = body.tool_choice, body.tools or []
    if choice == "required" and tools:
        return tools[0].function.name, tools[0].function.parameters or {"type": "object"}
    if isinstance(choice, _NamedTool):
        for tool in tools:
            if tool.function.name == choice.function.name:
                return tool.function.name, tool.function.parameters or {"type": "object"}
        raise rejected(f"Tool choice {choice.function.name[:80]!r} is not among 'tools'.", "tool_choice")
    if choice not in (None, "none", "auto"):
        raise rejected("'tool_choice' needs 'tools', and is one of none, auto, required or a function.", "tool_choice")
    return None


def _schema(response_format: _ResponseFormat | None) -> object | None:
    if response_format is None or response_format.type == "text":
        return None
    if response_format.type == "json_object":
        return {"type": "object", "properties": {"answer": {"type": "string"}}}
    if response_format.type == "json_schema" and response_format.json_schema and response_format.json_schema.schema:
        return response_format.json_schema.schema
    raise rejected("'response_format' must be text, json_object, or json_schema with a schema.", "response_format")


def _render(body: _ChatBody) -> Prompt:
    turns = ((message.role, _content(message), _calls(message)) for message in body.messages)
    data = chat_prompt(turns, msgspec.json.encode(body.tools) if body.tools else b"")
    return Prompt(data, count_tokens(len(data)))


def _calls(message: _Message) -> list[str]:
    return [text for call in message.tool_calls or () for text in (call.function.name, call.function.arguments)]


def _content(message: _Message) -> str:
    if isinstance(message.content, list):
        for part in message.content:
            if part.type != "text" or part.text is None:
                raise rejected(f"This model takes text only, not {part.type[:40]!r}.", "messages")
        return "\n".join(part.text or "" for part in message.content)
    return message.content or ""


def _prompts(prompt: str | list[str | int | list[int]]) -> tuple[Prompt, ...]:
    if isinstance(prompt, str):
        return (_text_prompt(prompt),)
    texts = [item for item in prompt if isinstance(item, str)]
    token_ids = [item for item in prompt if isinstance(item, int)]
    token_lists = [token_ids] if token_ids else [item for item in prompt if isinstance(item, list)]
    if len(prompt) not in (len(texts), len(token_ids), len(token_lists)):
        raise rejected("'prompt' must be text, tokens, or a list of one of them.", "prompt")
    prompts = (*map(_text_prompt, texts), *map(_token_prompt, token_lists))
    if not prompts or any(not known.tokens for known in prompts):
        raise rejected("'prompt' must not be empty.", "prompt")
    return prompts


def _text_prompt(text: str) -> Prompt:
    data = text.encode()
    return Prompt(data, count_tokens(len(data)), text)


def _token_prompt(token_ids: list[int]) -> Prompt:
    if max(token_ids, default=0) >= 2**32:
        raise rejected("'prompt' contains a token id that is not in the vocabulary.", "prompt")
    return Prompt(b"".join(token.to_bytes(4, "big") for token in token_ids), len(token_ids))


def _check_length(prompt: Prompt, asked: Asked, max_model_len: int, param: str) -> None:
    wanted = asked.max_tokens or 1
    if prompt.tokens + wanted <= max_model_len:
        return
    if asked.max_tokens is None or prompt.tokens >= max_model_len:
        what = f"your {param} resulted in {prompt.tokens} tokens"
    else:
        what = (
            f"you requested {prompt.tokens + wanted} tokens "
            f"({prompt.tokens} in the {param}, {wanted} in the completion)"
        )
    message = (
        f"This model's maximum context length is {max_model_len} tokens. However, {what}. "
        f"Please reduce the length of the {param}{' or completion' if asked.max_tokens else ''}."
    )
    raise rejected(message, param, "context_length_exceeded")
