"""A strict reader of server-sent events: what a careful client expects of an OpenAI stream."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx

DONE = b"[DONE]"


@dataclass(slots=True)
class Stream:
    """A stream as it was read.

    Attributes:
        chunks: the objects of all data lines but the last ``[DONE]`` and errors.
        comments: how many comment events there were.
        done: it ended with ``[DONE]``.
        error: the inside of the error object that ended it.
        whole: its last event was complete.
        texts: content by choice index.
        finishes: finish reasons by choice index.
    """

    chunks: list[dict[str, Any]] = field(default_factory=list)
    comments: int = 0
    done: bool = False
    error: dict[str, Any] | None = None
    whole: bool = True
    texts: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    finishes: dict[int, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Content of the first choice."""
        return self.texts.get(0, "")

    @property
    def usage(self) -> list[dict[str, Any]]:
        """Every usage object that was sent."""
        return [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]


def read(raw: bytes) -> Stream:
    """Read a stream, whole or cut off; only complete events count.

    Raises:
        AssertionError: it breaks a rule that holds for every stream, also for one that failed.
    """
    stream = Stream()
    *events, rest = raw.split(b"\n\n")
    stream.whole = rest == b""
    for event in events:
        assert not stream.done, f"after [DONE]: {event!r}"
        assert stream.error is None, f"after the error: {event!r}"
        assert b"\n" not in event, f"more than one line in an event: {event!r}"
        if event.startswith(b":"):
            stream.comments += 1
            continue
        assert event.startswith(b"data: "), f"neither data nor comment: {event!r}"
        _take(stream, event.removeprefix(b"data: "))
    return stream


def strict(raw: bytes, choices: int = 1) -> Stream:
    """Read a stream that must be complete and well-formed."""
    stream = read(raw)
    assert stream.error is None, stream.error
    assert stream.whole
    assert stream.done
    assert sorted(stream.finishes) == list(range(choices))
    return stream


def failed(raw: bytes) -> Stream:
    """Read a stream that failed on the way: it says so once, and nothing in it looks like success."""
    stream = read(raw)
    assert stream.whole
    assert not stream.done
    assert not stream.finishes
    assert stream.error is not None
    assert set(stream.error) >= {"message", "type", "param", "code"}
    return stream


def strict_response(response: httpx.Response, choices: int = 1) -> Stream:
    """Like :func:`strict`, head included."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return strict(response.content, choices)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object of a refusal, which is JSON and no stream.

    Raises:
        AssertionError: it does not look as OpenAI's do.
    """
    assert response.status_code >= 400
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    error: dict[str, Any] = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    return error


def _take(stream: Stream, data: bytes) -> None:
    if data == DONE:
        stream.done = True
        return
    chunk = json.loads(data.decode("utf-8", "strict"))
    if "error" in chunk:
        stream.error = chunk["error"]
        return
    assert not stream.usage, f"after the usage: {chunk}"
    stream.chunks.append(chunk)
    assert chunk["choices"] or chunk.get("usage"), f"neither a choice nor usage: {chunk}"
    for choice in chunk["choices"]:
        _take_choice(stream, choice)


def _take_choice(stream: Stream, choice: dict[str, Any]) -> None:
    index = choice["index"]
    assert index not in stream.finishes, f"choice {index} goes on after its end: {choice}"
    stream.texts[index] += choice.get("text") or choice.get("delta", {}).get("content") or ""
    if choice["finish_reason"] is not None:
        stream.finishes[index] = choice["finish_reason"]
