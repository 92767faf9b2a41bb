"""What an answer that lost its engine can go on from."""

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the client already has.

    Attributes:
        text: of the one choice.
        finished: the choice has its finish_reason.
        plain: it is text of one choice alone, so that another engine can go on from it.
        started: some frame was delivered, be it only the role.
    """

    text: str = ""
    finished: bool = False
    plain: bool = True
    started: bool = False


_CARRIES_MORE = ("tool_calls", "function_call", "refusal", "reasoning", "reasoning_content", "audio")


def read_delivered(frames: list[bytes]) -> Delivered:
    """Read the chunks that went out (chat or completions)."""
    text, finished, plain = [], False, True
    for frame in frames:
        for choice in orjson.loads(frame).get("choices", ()):
            delta = choice.get("delta") or choice
            text.append(delta.get("content") or delta.get("text") or "")
            finished = finished or choice.get("finish_reason") is not None
            more = any(delta.get(name) for name in _CARRIES_MORE) or choice.get("logprobs")
            plain = plain and choice.get("index", 0) == 0 and not more
    return Delivered("".join(text), finished, plain, bool(frames))


def only_role(frame: bytes) -> bool:
    """True for the chunk that opens a chat answer and carries no text."""
    choices = orjson.loads(frame).get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return "role" in delta and not delta.get("content") and choices[0].get("finish_reason") is None
