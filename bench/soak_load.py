"""The clients of the soak: what they ask, and a book of all that each of them ever got.

Every attempt brings a trace id of its own. The gateway makes the first 12 digits of the request id from it, so a usage
row is matched with its attempt even where the connection broke before a byte came back.
"""

import asyncio
import json
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

MODEL = "smollm2-135m-instruct"
TIMEOUT_S = 90.0
ATTEMPTS = 12
RETRY_S = 0.5
CHAT, TEXT = "/chat/completions", "/completions"


@dataclass(slots=True)
class Attempt:
    """One request on the wire, and what came of it.

    Attributes:
        kind: which of ``MIX`` it belongs to.
        trace: trace id, 32 hex digits.
        idempotency_key: "" for none.
        leave_after: bytes after which the client leaves; None if it stays.
        status: 0 until there is one.
        request_id: of the answer; ``original_id`` of the first request where this answer is that one's.
        ended: "whole", "left" (by the client), "broken" (by the other side) or "unanswered" (before any byte).
    """

    number: int
    kind: str
    tenant: str
    path: str
    body: bytes
    trace: str
    stream: bool
    idempotency_key: str = ""
    leave_after: int | None = None
    status: int = 0
    request_id: str = ""
    original_id: str = ""
    raw: bytes = b""
    ended: str = "unanswered"

    @property
    def mark(self) -> str:
        """The digits that its request id begins with."""
        return self.trace[:12]

    @property
    def is_complete(self) -> bool:
        """The whole answer came."""
        whole = self.status == 200 and self.ended == "whole"
        return whole and (not self.stream or self.raw.endswith(b"data: [DONE]\n\n"))

    @property
    def usage(self) -> tuple[int, int]:
        """Prompt and completion tokens as a complete answer tells them."""
        if self.stream:
            events = [event for event in self.raw.split(b"\n\n") if event.startswith(b"data: {")]
            last = json.loads(events[-1].removeprefix(b"data: "))
        else:
            last = json.loads(self.raw)
        return last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a refusal; empty for none."""
        if self.status < 400 or self.ended != "whole":
            return {}
        inside: dict[str, Any] = json.loads(self.raw)["error"]
        return inside


@dataclass(frozen=True, slots=True)
class Wish:
    """What one client wants: its first attempt, and how it goes on."""

    attempt: Attempt
    twins: int = 1
    retries: bool = False


@dataclass(slots=True)
class Book:
    """All attempts of a run."""

    attempts: list[Attempt] = field(default_factory=list)


MIX: Mapping[str, int] = {
    "chat stream": 28,
    "chat": 14,
    "completion stream": 9,
    "completion": 9,
    "leaves a stream": 9,
    "leaves a whole answer": 4,
    "retries with a key": 12,
    "twins with a key": 4,
    "engine fails once": 3,
    "engine fails": 2,
    "rejected by the engine": 2,
    "malformed": 4,
}


class Clients:
    """Makes wishes of all kinds, and follows each to its end."""

    def __init__(self, base_url: str, keys: Mapping[str, str], seed: int) -> None:
        self.book = Book()
        self._base_url, self._keys = base_url, keys
        self._random = random.Random(seed)
        self._count = 0

    async def run(self, seconds: float, rate: float) -> None:
        """Send wishes at random moments, ``rate`` a second, for ``seconds``; return when the last has ended."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with (
            httpx.AsyncClient(base_url=self._base_url, timeout=TIMEOUT_S, limits=limits) as self._http,
            asyncio.TaskGroup() as running,
        ):
            end_s = due_s = time.monotonic()
            end_s += seconds
            while (due_s := due_s + self._random.expovariate(rate)) < end_s:
                await asyncio.sleep(due_s - time.monotonic())
                running.create_task(self._follow(self._wish()))

    # --- wishes -----------------------------------------------------------------------------------------------------

    def _wish(self) -> Wish:
        kind = self._random.choices(tuple(MIX), tuple(MIX.values()))[0]
        tokens, pace_s = self._random.randint(2, 40), self._random.choice((0, 0.01, 0.03))
        script = f"tokens={tokens}" + (f",itl={pace_s}" if pace_s else "")
        if kind == "malformed":
            return Wish(self._malformed(kind))
        if kind.startswith("leaves"):
            stream, script = kind.endswith("stream"), f"tokens={tokens + 20},itl=0.05"
            leave_after = self._random.randint(300, 3000) if stream else 0
            return Wish(self._attempt(kind, CHAT, script, stream=stream, leave_after=leave_after))
        if kind.endswith("with a key"):
            key, stream = secrets.token_hex(16), self._random.random() < 0.5
            attempt = self._attempt(kind, CHAT, script, stream=stream, idempotency_key=key)
            return Wish(attempt, twins=3 if kind.startswith("twins") else 1, retries=True)
        scripts = {
            "engine fails once": f"tokens={tokens},die_once_after={tokens // 2}",
            "engine fails": f"tokens={tokens},die_after={tokens // 2}",
            "rejected by the engine": "error=400",
        }
        path = TEXT if kind.startswith("completion") else CHAT
        stream = kind.endswith("stream") or (kind in scripts and self._random.random() < 0.5)
        return Wish(self._attempt(kind, path, scripts.get(kind, script), stream=stream))

    def _attempt(self, kind: str, path: str, script: str, *, stream: bool, **more: Any) -> Attempt:
        text = " ".join(self._random.choices(("boat", "lock", "water", "hill", "gate"), k=self._random.randint(1, 60)))
        prompt = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}
        fields = {"model": MODEL, **prompt, "max_tokens": 64, "metadata": {"sim": script}, "stream": stream}
        fields |= {"stream_options": {"include_usage": True}} if stream else {}
        self._count += 1
        tenant = self._random.choice(tuple(self._keys))
        trace = secrets.token_hex(16)
        return Attempt(self._count, kind, tenant, path, json.dumps(fields).encode(), trace, stream, **more)

    def _malformed(self, kind: str) -> Attempt:
        attempt = self._attempt(kind, CHAT, "tokens=2", stream=False)
        fields: dict[str, Any] = json.loads(attempt.body)
        wrong = self._random.choice(("json", "field", "model", "key"))
        if wrong == "json":
            attempt.body = attempt.body[:-2]
        elif wrong == "field":
            attempt.body = json.dumps(fields | {"temperature": 99}).encode()
        elif wrong == "model":
            attempt.body = json.dumps(fields | {"model": "unknown"}).encode()
        else:
            attempt.tenant = ""
        return attempt

    # --- following one ----------------------------------------------------------------------------------------------

    async def _follow(self, wish: Wish) -> None:
        if not wish.retries:
            await self._send(wish.attempt)
            return
        await asyncio.gather(*(self._insist(self._copy(wish.attempt)) for _ in range(wish.twins)))

    async def _insist(self, attempt: Attempt) -> None:
        """Send the same again, with the same key, until it is answered or refused for good."""
        for _ in range(ATTEMPTS):
            await self._send(attempt)
            if attempt.is_complete or (400 <= attempt.status < 500 and not _may_retry(attempt)):
                return
            await asyncio.sleep(RETRY_S)
            attempt = self._copy(attempt)

    def _copy(self, attempt: Attempt) -> Attempt:
        self._count += 1
        known = (attempt.kind, attempt.tenant, attempt.path, attempt.body)
        return Attempt(self._count, *known, secrets.token_hex(16), attempt.stream, attempt.idempotency_key)

    async def _send(self, attempt: Attempt) -> None:
        """Take what comes until it ends, breaks, or the client leaves."""
        self.book.attempts.append(attempt)
        headers = {
            "authorization": f"Bearer {self._keys.get(attempt.tenant, 'sk-unknown-key')}",
            "traceparent": f"00-{attempt.trace}-{attempt.trace[:16]}-01",
            "content-type": "application/json",
        }
        headers |= {"idempotency-key": attempt.idempotency_key} if attempt.idempotency_key else {}
        try:
            async with asyncio.timeout(0.3 if attempt.leave_after == 0 else None):
                await self._exchange(attempt, headers)
        except TimeoutError:
            attempt.ended = "left"
        except httpx.TransportError:
            attempt.ended = "broken" if attempt.status else "unanswered"

    async def _exchange(self, attempt: Attempt, headers: Mapping[str, str]) -> None:
        async with self._http.stream("POST", attempt.path, content=attempt.body, headers=headers) as response:
            attempt.status, attempt.request_id = response.status_code, response.headers["x-request-id"]
            if "x-sluice-idempotent-replayed" in response.headers:
                attempt.original_id = response.headers["x-sluice-original-request-id"]
            async for part in response.aiter_raw():
                attempt.raw += part
                if attempt.leave_after is not None and len(attempt.raw) >= attempt.leave_after:
                    attempt.ended = "left"
                    return
        attempt.ended = "whole"


def _may_retry(attempt: Attempt) -> bool:
    return attempt.status == 429 or attempt.error.get("code") == "idempotency_in_progress"


def by_key(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """The attempts that carry an idempotency key, by that key."""
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.idempotency_key:
            found.setdefault(attempt.idempotency_key, []).append(attempt)
    return found
