"""What an answer that lost its engine can go on from."""

from dataclasses import dataclass

import orjson

from domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the client already has.

    Attributes:
        text: of the one choice.
        finished: how many choices have their finish_reason.
        plain: it is text of one choice alone, so that another engine can go on from it.
        started: some frame was delivered, be it only the role.
        counted: the chunk with the usage was delivered.
    """

    text: str = ""
    finished: int = 0
    plain: bool = True
    started: bool = False
    counted: bool = False


_CARRIES_MORE = ("tool_calls", "function_call", "refusal", "reasoning", "reasoning_content", "audio")


def read_delivered(frames: list[bytes]) -> Delivered:
    """Read the chunks that went out (chat or completions)."""
    text, finished, plain, counted = [], 0, True, False
    for frame in frames:
        chunk = orjson.loads(frame)
        counted = counted or (not chunk.get("choices") and "usage" in chunk)
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta") or choice
            text.append(delta.get("content") or delta.get("text") or "")
            finished += choice.get("finish_reason") is not None
            more = any(delta.get(name) for name in _CARRIES_MORE) or choice.get("logprobs")
            plain = plain and choice.get("index", 0) == 0 and not more
    return Delivered("".join(text), finished, plain, bool(frames), counted)


def can_go_on(body: bytes) -> bool:
    """Whether another engine can go on in the middle of an answer to ``body``.

    Not where a grammar constrains it: an engine would begin the grammar anew at the seam.
    """
    asked = orjson.loads(body)
    kind = (asked.get("response_format") or {}).get("type", "text")
    return kind == "text" and not asked.get("structured_outputs")


def usage_chunk(frame: bytes, usage: Usage) -> bytes:
    """The chunk with the usage, made like ``frame``, for an answer whose engine was lost just before it."""
    head = orjson.loads(frame)
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    kept = {name: head[name] for name in ("id", "object", "created", "model") if name in head}
    return orjson.dumps({**kept, "choices": [], "usage": counts})


def only_role(frame: bytes) -> bool:
    """True for the chunk that opens a chat answer and carries no text."""
    choices = orjson.loads(frame).get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return "role" in delta and not delta.get("content") and choices[0].get("finish_reason") is None
