"""A client of the engine port: jobs to ask, and replies to look at."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from domain.usage import Usage
from workers.engines.port import Engine, Frame, Job

MAX_MODEL_LEN = 1024
MAX_NUM_SEQS = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """All frames of one job, and what they say; lists are in order of the choices' indices."""

    frames: list[Frame]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(frame.data) for frame in self.frames]

    @property
    def usage(self) -> Usage:
        return self.frames[-1].usage

    @property
    def texts(self) -> list[str]:
        found: dict[int, str] = {}
        for choice in self._choices():
            inner = choice.get("delta") or choice.get("message") or choice
            piece = inner.get("content") or inner.get("text") or ""
            found[choice["index"]] = found.get(choice["index"], "") + piece
        return [found[index] for index in sorted(found)]

    @property
    def text(self) -> str:
        (text,) = self.texts
        return text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for frame in self.frames for token in frame.token_ids)

    @property
    def finish_reasons(self) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for choice in self._choices():
            reasons = found.setdefault(choice["index"], [])
            if choice.get("finish_reason"):
                reasons.append(choice["finish_reason"])
        return [found[index] for index in sorted(found)]

    def _choices(self) -> list[dict[str, Any]]:
        return [choice for item in self.objects for choice in item["choices"]]


def chat(content: str, *, stream: bool = True, **fields: Any) -> Job:
    """A greedy chat job of 12 tokens, unless ``fields`` say otherwise."""
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 12,
        "ignore_eos": True,
        "stream": stream,
        **fields,
    }
    return Job(str(uuid4()), "chat", json.dumps(body).encode(), stream, cache_salt="a" * 32)


def completion(prompt: Any, *, stream: bool = True, **fields: Any) -> Job:
    """A greedy completions job of 12 tokens, unless ``fields`` say otherwise."""
    body = {
        "model": "any",
        "prompt": prompt,
        "temperature": 0,
        "max_tokens": 12,
        "ignore_eos": True,
        "stream": stream,
        **fields,
    }
    return Job(str(uuid4()), "completions", json.dumps(body).encode(), stream, cache_salt="a" * 32)


def opened(engine: Engine, job: Job) -> AsyncGenerator[Frame, None]:
    """The frames of ``job`` as the generator that every engine gives."""
    return cast(AsyncGenerator[Frame, None], engine.run(job))


async def ask(engine: Engine, job: Job) -> Reply:
    """Run ``job`` to its end."""
    async with aclosing(opened(engine, job)) as frames:
        return Reply([frame async for frame in frames])


def rest_of(job: Job, cut: Reply) -> Job:
    """``job`` as it goes on elsewhere after the client got ``cut``."""
    return replace(
        job,
        delivered_text=cut.text if cut.frames else "",
        delivered_tokens=cut.usage.completion_tokens if cut.frames else 0,
        delivered_ids=cut.token_ids,
    )


def with_salt(job: Job, letter: str) -> Job:
    """The same job of another tenant."""
    return replace(job, cache_salt=letter * 32)
