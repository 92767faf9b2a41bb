"""OpenAI's answer objects as JSON bytes; on the hot path a chunk costs one small concatenation."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Choice:
    """One finished choice of a unary answer; ``logprobs`` is a JSON object or None."""

    index: int
    text: str
    finish_reason: str
    logprobs: bytes | None = None
    tool_name: str = ""
    tool_call_id: str = ""


def usage_json(usage: Usage) -> bytes:
    """OpenAI's usage object."""
    return (
        b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}'
        % (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.prompt_tokens + usage.completion_tokens,
            usage.cached_tokens,
        )
    )


class ChunkWriter:
    """Chunks of one stream. ``with_usage`` puts ``"usage": null`` into every chunk but the last, as OpenAI does."""

    def __init__(self, request_id: str, model: str, created: int, *, chat: bool, with_usage: bool) -> None:
        self._chat = chat
        self._start = _opening(
            "chat.completion.chunk" if self._chat else "text_completion", self._chat, request_id, model, created
        )
        self._end = b',"usage":null}' if with_usage else b"}"
        self._heads: dict[int, bytes] = {}
        self._plain = (
            b'},"logprobs":null,"finish_reason":null}]' if self._chat else b',"logprobs":null,"finish_reason":null}]'
        ) + self._end

    def role(self, index: int) -> bytes:
        """The first chunk of a chat choice."""
        return self._delta(index, b'{"role":"assistant","content":""}')

    def text(self, index: int, text: str, finish_reason: str | None = None, logprobs: bytes | None = None) -> bytes:
        """A piece of text, with its finish reason if it is the last one."""
        head = self._heads.get(index) or self._head(index)
        if finish_reason is None and logprobs is None:
            return head + orjson.dumps(text) + self._plain
        close = b"}" if self._chat else b""
        tail = b',"logprobs":%b,"finish_reason":%b}]' % (logprobs or b"null", orjson.dumps(finish_reason))
        return head + orjson.dumps(text) + close + tail + self._end

    def tool_call(self, index: int, call_id: str, name: str) -> bytes:
        """The chunk that opens a tool call."""
        call = b'{"index":0,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}' % (
            orjson.dumps(call_id),
            orjson.dumps(name),
        )
        return self._delta(index, b'{"tool_calls":[%b]}' % call)

    def tool_arguments(self, index: int, piece: str, finish_reason: str | None = None) -> bytes:
        """A piece of a tool call's arguments, with its finish reason if it is the last one."""
        delta = b'{"tool_calls":[{"index":0,"function":{"arguments":%b}}]}' % orjson.dumps(piece)
        return self._delta(index, delta, finish_reason)

    def usage(self, usage: Usage) -> bytes:
        """The chunk without choices that ends a stream whose client asked for usage."""
        return self._start + b'"choices":[],"usage":' + usage_json(usage) + b"}"

    def _head(self, index: int) -> bytes:
        inner = b'"delta":{"content":' if self._chat else b'"text":'
        head = self._heads[index] = self._start + b'"choices":[{"index":%d,' % index + inner
        return head

    def _delta(self, index: int, delta: bytes, finish_reason: str | None = None) -> bytes:
        choice = b'{"index":%d,"delta":%b,"logprobs":null,"finish_reason":%b}' % (
            index,
            delta,
            orjson.dumps(finish_reason),
        )
        return self._start + b'"choices":[' + choice + b"]" + self._end


def whole_answer(
    request_id: str, model: str, created: int, choices: Sequence[Choice], usage: Usage, *, chat: bool
) -> bytes:
    """The one object of a unary answer."""
    start = _opening("chat.completion" if chat else "text_completion", chat, request_id, model, created)
    parts = b",".join(map(_chat_choice if chat else _text_choice, choices))
    return start + b'"choices":[' + parts + b'],"usage":' + usage_json(usage) + b"}"


def _opening(kind: str, chat: bool, request_id: str, model: str, created: int) -> bytes:
    prefix = "chatcmpl-" if chat else "cmpl-"
    start = {"id": prefix + request_id, "object": kind, "created": created, "model": model}
    return orjson.dumps(start)[:-1] + b","


def _chat_choice(choice: Choice) -> bytes:
    if choice.tool_name:
        call = {
            "id": choice.tool_call_id,
            "type": "function",
            "function": {"name": choice.tool_name, "arguments": choice.text},
        }
        message = b'{"role":"assistant","content":null,"refusal":null,"tool_calls":[%b]}' % orjson.dumps(call)
    else:
        message = b'{"role":"assistant","content":%b,"refusal":null}' % orjson.dumps(choice.text)
    return b'{"index":%d,"message":%b,%b}' % (choice.index, message, _ending(choice))


def _text_choice(choice: Choice) -> bytes:
    return b'{"index":%d,"text":%b,%b}' % (choice.index, orjson.dumps(choice.text), _ending(choice))


def _ending(choice: Choice) -> bytes:
    return b'"logprobs":%b,"finish_reason":%b' % (choice.logprobs or b"null", orjson.dumps(choice.finish_reason))
