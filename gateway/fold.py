"""A streamed answer made whole, and a whole one made a stream: answers are kept whole and asked for in both forms.

What is not known here to mean the same in both forms is not guessed at: such an answer is not kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from domain.usage import Usage

GOOD_ENDS = frozenset(("stop", "tool_calls"))
"""Finish reasons of a choice that came to its own end."""

_HEAD = ("id", "object", "created", "model")
_OBJECTS = {"chat.completion": "chat.completion.chunk", "text_completion": "text_completion"}
_WHOLES = {chunk: whole for whole, chunk in _OBJECTS.items()}
_TEXTS = ("content", "refusal", "reasoning", "reasoning_content")
_LOG_LISTS = ("content", "refusal", "tokens", "token_logprobs", "top_logprobs", "text_offset")

_KNOWN = frozenset((*_HEAD, "choices", "usage", "system_fingerprint"))
_KNOWN_CHOICE = frozenset(("index", "delta", "message", "text", "logprobs", "finish_reason", "stop_reason"))
_KNOWN_MESSAGE = frozenset(("role", "tool_calls", *_TEXTS))
_KNOWN_CALL = frozenset(("index", "id", "type", "function"))
_KNOWN_FUNCTION = frozenset(("name", "arguments"))


class UnknownForm(ValueError):
    """The answer holds something that has no known place in the other form, or lacks something."""


@dataclass(slots=True)
class _Choice:
    """One choice, gathered from its chunks."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    logprobs: dict[str, list[Any] | None] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


def fold(frames: Iterable[bytes], usage: Usage) -> dict[str, Any]:
    """Make a streamed answer whole.

    Args:
        frames: the chunks (JSON objects) of one stream of a chat or a completion, all of them.
        usage: tokens of the request; told where the stream did not tell them.

    Returns:
        The answer object that the same request gets without a stream.

    Raises:
        UnknownForm: it cannot be made whole.
    """
    head: dict[str, Any] = {}
    choices: dict[int, _Choice] = {}
    told: dict[str, Any] | None = None
    for frame in frames:
        chunk = orjson.loads(frame)
        _check(chunk, _KNOWN)
        head = head or {name: chunk[name] for name in _HEAD}
        if chunk.get("system_fingerprint"):
            head["system_fingerprint"] = chunk["system_fingerprint"]
        told = chunk.get("usage") or told
        for choice in chunk["choices"]:
            _take(choices.setdefault(choice["index"], _Choice()), choice)
    if not choices or head["object"] not in _WHOLES or any(one.finish_reason is None for one in choices.values()):
        raise UnknownForm("the stream has no end")
    whole = _WHOLES[head["object"]]
    write = _chat_choice if whole == "chat.completion" else _text_choice
    made = [write(index, choices[index]) for index in sorted(choices)]
    return {**head, "object": whole, "choices": made, "usage": _counts(told, usage)}


def check_whole(body: bytes, usage: Usage) -> dict[str, Any]:
    """Read a whole answer of a chat or a completion that can be made a stream.

    Raises:
        UnknownForm: it cannot.
    """
    answer: dict[str, Any] = orjson.loads(body)
    _check(answer, _KNOWN)
    for choice in answer.get("choices", ()):
        _check(choice, _KNOWN_CHOICE)
        message = choice.get("message") or {}
        _check(message, _KNOWN_MESSAGE)
        _check(choice.get("logprobs") or {}, frozenset(_LOG_LISTS))
        for call in message.get("tool_calls") or ():
            _check(call, _KNOWN_CALL)
            _check(call["function"], _KNOWN_FUNCTION)
    if answer.get("object") not in _OBJECTS or not answer.get("choices"):
        raise UnknownForm("no choices")
    return {**{name: answer[name] for name in _HEAD}, **answer, "usage": _counts(answer.get("usage"), usage)}


def unfold(answer: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """Make a whole answer a stream: chunks (JSON objects), without ``data:`` and the last line.

    Args:
        answer: as :func:`fold` and :func:`check_whole` return it.
        include_usage: end with the chunk of token counts.
    """
    head = {name: answer[name] for name in _HEAD} | {"object": _OBJECTS[answer["object"]]}
    if answer.get("system_fingerprint"):
        head["system_fingerprint"] = answer["system_fingerprint"]
    tail: dict[str, Any] = {"usage": None} if include_usage else {}
    write = _chat_pieces if answer["object"] == "chat.completion" else _text_pieces
    chunks = [{**head, "choices": [piece], **tail} for choice in answer["choices"] for piece in write(choice)]
    if include_usage:
        chunks.append({**head, "choices": [], "usage": answer["usage"]})
    return [orjson.dumps(chunk) for chunk in chunks]


def has_good_end(answer: Mapping[str, Any], choices: int) -> bool:
    """Whether all of this number of choices are there and came to their own end."""
    found = answer["choices"]
    return len(found) == choices and all(choice.get("finish_reason") in GOOD_ENDS for choice in found)


# --- from a stream ----------------------------------------------------------------------------------------------------


def _take(choice: _Choice, piece: Mapping[str, Any]) -> None:
    _check(piece, _KNOWN_CHOICE)
    if choice.finish_reason is not None:
        raise UnknownForm("a choice goes on after its end")
    delta = piece["delta"] if "delta" in piece else {"content": piece["text"]}
    _check(delta, _KNOWN_MESSAGE)
    for name in _TEXTS:
        if delta.get(name) is not None:
            choice.texts.setdefault(name, []).append(delta[name])
    for call in delta.get("tool_calls") or ():
        _take_call(choice.calls, call)
    if piece.get("logprobs"):
        choice.logprobs = _joined(choice.logprobs, piece["logprobs"])
    choice.finish_reason = piece.get("finish_reason")
    choice.stop_reason = piece.get("stop_reason")


def _take_call(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    _check(piece, _KNOWN_CALL)
    function = piece.get("function") or {}
    _check(function, _KNOWN_FUNCTION)
    call = calls.setdefault(piece["index"], {"id": None, "type": "function", "name": "", "arguments": []})
    call["id"] = piece.get("id") or call["id"]
    call["type"] = piece.get("type") or call["type"]
    call["name"] += function.get("name") or ""
    call["arguments"].append(function.get("arguments") or "")


def _joined(so_far: dict[str, list[Any] | None] | None, more: Mapping[str, Any]) -> dict[str, list[Any] | None]:
    _check(more, frozenset(_LOG_LISTS))
    joined = dict.fromkeys(more) if so_far is None else so_far
    for name, values in more.items():
        if values is not None:
            joined[name] = (joined.get(name) or []) + values
    return joined


def _chat_choice(index: int, choice: _Choice) -> dict[str, Any]:
    texts = {name: "".join(pieces) for name, pieces in choice.texts.items()}
    calls = [_whole_call(choice.calls[number]) for number in sorted(choice.calls)]
    said_otherwise = calls or any(texts.get(name) for name in _TEXTS[1:])
    message: dict[str, Any] = {
        "role": "assistant",
        "content": texts.get("content") or (None if said_otherwise else ""),
        "refusal": texts.get("refusal") or None,
    }
    message |= {name: texts[name] for name in _TEXTS[2:] if texts.get(name)}
    if calls:
        message["tool_calls"] = calls
    return {"index": index, "message": message, **_ending(choice)}


def _whole_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": "".join(call["arguments"])}
    return {"id": call["id"], "type": call["type"], "function": function}


def _text_choice(index: int, choice: _Choice) -> dict[str, Any]:
    return {"index": index, "text": "".join(choice.texts.get("content", ())), **_ending(choice)}


def _ending(choice: _Choice) -> dict[str, Any]:
    found: dict[str, Any] = {"logprobs": choice.logprobs, "finish_reason": choice.finish_reason}
    return found | ({} if choice.stop_reason is None else {"stop_reason": choice.stop_reason})


def _counts(told: Mapping[str, Any] | None, usage: Usage) -> dict[str, Any]:
    """The engine's own counts, with the tokens that its cache held where it does not tell them."""
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        **(told or {}),
    }
    if not counts.get("prompt_tokens_details"):
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts


# --- to a stream ------------------------------------------------------------------------------------------------------


def _chat_pieces(choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Who speaks; what is said, with all log-probabilities on its first piece; the end."""
    index, message, logprobs = choice["index"], choice["message"], choice.get("logprobs")
    yield _delta(index, {"role": "assistant", "content": ""}, None)
    for name in (*_TEXTS[2:], "content", "refusal"):
        if message.get(name):
            yield _delta(index, {name: message[name]}, logprobs)
            logprobs = None
    for number, call in enumerate(message.get("tool_calls") or ()):
        yield _delta(index, {"tool_calls": [{**call, "index": number}]}, logprobs)
        logprobs = None
    yield _delta(index, {}, logprobs) | _end_of(choice)


def _text_pieces(choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"index": choice["index"], "text": choice["text"], "logprobs": choice.get("logprobs")} | _end_of(choice)


def _delta(index: int, delta: dict[str, Any], logprobs: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}


def _end_of(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {name: choice[name] for name in ("finish_reason", "stop_reason") if choice.get(name) is not None}


def _check(found: Mapping[str, Any], known: frozenset[str]) -> None:
    more = [name for name in found.keys() - known if found[name] not in (None, [], {})]
    if more:
        raise UnknownForm(f"unknown: {', '.join(sorted(more))}")
