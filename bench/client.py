"""A light HTTP client for load, and the two ways to put load on anything: closed loop and open loop.

    async with HttpClient(base_url) as client:
        outcomes = await open_loop(client.send, calls, duration_s=20)

A loop drives any ``Send``, so what has no HTTP face is measured by the same rules. Every call ends in one
:class:`Outcome`, also one that failed or that the end of the run cut off.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httptools
import orjson

UNFINISHED = "unfinished"
"""Error code of a call that the end of the run cut off."""

NO_CONNECTION = "no_connection"
"""Error code of a call that could not be sent, or whose connection broke."""

CLIENT_FULL = "client_full"
"""Error code of a call that was due while ``max_in_flight`` others ran; it was not sent."""

_EVENT_END = b"\n\n"
_DATA = b"data: "


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        body: the JSON body.
        key: the API key.
        at_s: when it is due in an open loop, in seconds from the loop's start.
    """

    body: bytes
    key: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call went.

    Attributes:
        status: HTTP status; 0 if there was none.
        ttft_s: seconds until the first piece of text, from when the call was due; None if there was none, or no stream.
        latency_s: seconds until its end, from when the call was due.
        tokens: output tokens received; of a stream without usage its pieces of text.
        error_code: ``code`` (or ``type``) of the error object, or one of this module's own codes; empty if all is well.
        started_s: when the call was due, in seconds from the loop's start.
    """

    status: int
    ttft_s: float | None
    latency_s: float
    tokens: int
    error_code: str
    started_s: float

    @property
    def is_ok(self) -> bool:
        """It was answered wholly."""
        return self.status == 200 and not self.error_code

    @property
    def ended_s(self) -> float:
        """When it ended, in seconds from the loop's start."""
        return self.started_s + self.latency_s


Send = Callable[[Call, float, float], Awaitable[Outcome]]
"""``send(call, due_s, end_s)``: both are times of the event loop. Latency counts from ``due_s``; at ``end_s`` the call
is cut off. ``started_s`` of the outcome is ``due_s``; the loops below make it relative."""


async def closed_loop(send: Send, clients: Sequence[Iterable[Call]], duration_s: float) -> list[Outcome]:
    """Each client sends its calls one after the other, until they or the time run out.

    Clients may share one iterator: ``[calls] * 120``.
    """
    begin_s = asyncio.get_running_loop().time()
    done: list[Outcome] = []
    await asyncio.gather(*(_client(send, iter(calls), begin_s + duration_s, done) for calls in clients))
    return _relative(done, begin_s)


async def open_loop(
    send: Send, calls: Iterable[Call], duration_s: float, *, max_in_flight: int = 10_000
) -> list[Outcome]:
    """Send each call when it is due, whatever became of those before. ``calls`` are in order of ``at_s``."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    end_s = begin_s + duration_s
    done: list[Outcome] = []
    running: set[asyncio.Task[None]] = set()
    for call in calls:
        due_s = begin_s + call.at_s
        if due_s >= end_s:
            break
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        if len(running) >= max_in_flight:
            done.append(Outcome(0, None, 0.0, 0, CLIENT_FULL, due_s))
            continue
        task = asyncio.create_task(_one(send, call, due_s, end_s, done))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return _relative(done, begin_s)


async def _client(send: Send, calls: Iterator[Call], end_s: float, done: list[Outcome]) -> None:
    loop = asyncio.get_running_loop()
    while (now_s := loop.time()) < end_s and (call := next(calls, None)) is not None:
        await _one(send, call, now_s, end_s, done)


async def _one(send: Send, call: Call, due_s: float, end_s: float, done: list[Outcome]) -> None:
    done.append(await send(call, due_s, end_s))


def _relative(outcomes: list[Outcome], begin_s: float) -> list[Outcome]:
    return [replace(outcome, started_s=outcome.started_s - begin_s) for outcome in outcomes]


class HttpClient:
    """Keeps connections to one server and reuses them; as many as calls run at once.

    ``base_url`` is ``http://HOST:PORT/v1`` or the like; ``path`` is appended to it.
    """

    def __init__(self, base_url: str, path: str = "/chat/completions") -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"only http:// is supported, not {base_url!r}")
        self._host, self._port = parts.hostname, parts.port or 80
        self._head = f"POST {parts.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        self._idle: deque[_Connection] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            self._idle.pop().abort()

    async def send(self, call: Call, due_s: float, end_s: float) -> Outcome:
        """Send one call; see ``Send``."""
        answer = _Answer()
        connection: _Connection | None = None
        try:
            async with asyncio.timeout_at(end_s):
                connection = await self._connect()
                await connection.exchange(self._request(call), answer)
        except TimeoutError:
            answer.error_code = UNFINISHED
        except OSError:
            answer.error_code = NO_CONNECTION
        finally:
            self._put_back(connection, answer)
        now_s = asyncio.get_running_loop().time()
        ttft_s = None if answer.first_s is None else answer.first_s - due_s
        return Outcome(answer.status, ttft_s, now_s - due_s, answer.tokens, answer.error_code, due_s)

    def _request(self, call: Call) -> bytes:
        head = f"{self._head}Authorization: Bearer {call.key}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(call.body)}\r\n\r\n".encode() + call.body

    async def _connect(self) -> "_Connection":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, self._host, self._port)
        return connection

    def _put_back(self, connection: "_Connection | None", answer: "_Answer") -> None:
        if connection is None:
            return
        if answer.is_whole and connection.is_open:
            self._idle.append(connection)
        else:
            connection.abort()


@dataclass(slots=True)
class _Answer:
    """What has come of one answer."""

    status: int = 0
    is_stream: bool = False
    is_whole: bool = False
    first_s: float | None = None
    tokens: int = 0
    error_code: str = ""
    body: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes, now_s: float) -> None:
        """More of the body."""
        self.body += data
        if not self.is_stream:
            return
        *events, rest = self.body.split(_EVENT_END)
        self.body = rest
        for event in events:
            if event.startswith(_DATA) and not event.endswith(b"[DONE]"):
                self._take_event(orjson.loads(event[len(_DATA) :]), now_s)

    def finish(self) -> None:
        """The body is whole."""
        self.is_whole = True
        if not self.is_stream:
            self._take_facts(orjson.loads(self.body))

    def _take_event(self, event: dict[str, Any], now_s: float) -> None:
        for choice in event.get("choices", ()):
            delta = choice.get("delta") or choice
            if delta.get("content") or delta.get("text") or delta.get("tool_calls"):
                self.tokens += 1
                if self.first_s is None:
                    self.first_s = now_s
        self._take_facts(event)

    def _take_facts(self, found: dict[str, Any]) -> None:
        if usage := found.get("usage"):
            self.tokens = usage["completion_tokens"]
        if error := found.get("error"):
            self.error_code = str(error.get("code") or error.get("type") or "error")


class _Connection(asyncio.Protocol):
    """One connection; one exchange at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer = _Answer()
        self._ended: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """It can be used again."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, answer: _Answer) -> None:
        """Send ``request`` and fill ``answer``.

        Raises:
            ConnectionError: the connection broke before the answer was whole.
        """
        if self._transport is None:
            raise ConnectionResetError
        self._answer, self._ended = answer, self._loop.create_future()
        self._transport.write(request)
        await self._ended

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = transport  # type: ignore[assignment]  # a stream's transport is a Transport

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, ValueError) as error:
            self._end(ConnectionError(f"not an HTTP answer of this API: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._transport = None
        self._end(ConnectionResetError(str(exc or "closed by the server")))

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if name.lower() == b"content-type":
            self._answer.is_stream = value.startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._answer.take(body, self._loop.time())

    def on_message_complete(self) -> None:
        """See httptools."""
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()
        self._answer.finish()
        self._end(None)

    def _end(self, error: ConnectionError | None) -> None:
        if self._ended is None or self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
