"""Ways to bring requests to one engine, each a ``Send`` for the loops of :mod:`bench.client`.

All but :func:`product` call the engine in this process, through the engine port, with nothing in between that costs
time: what they lose, they lose by the way they batch. :func:`product` is Sluice as users get it, over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from uuid import uuid4

from bench.client import UNFINISHED, Call, HttpClient, Outcome, Send
from workers.engines.port import Engine, Job


@dataclass(slots=True)
class Progress:
    """What has come of one call: output tokens, and when the first reached the client (the event loop's time)."""

    tokens: int = 0
    first_s: float | None = None


Work = Callable[[Call, Progress], Awaitable[None]]


@asynccontextmanager
async def direct(engine: Engine) -> AsyncIterator[Send]:
    """Straight into the engine's continuous batching: the reference."""
    yield _send(_Runner(engine).run)


@asynccontextmanager
async def one_at_a_time(engine: Engine) -> AsyncIterator[Send]:
    """The next request starts when the one before has ended."""
    runner, turn = _Runner(engine), asyncio.Lock()

    async def work(call: Call, progress: Progress) -> None:
        async with turn:
            await runner.run(call, progress)

    yield _send(work)


@asynccontextmanager
async def naive_window(engine: Engine, size: int, wait_s: float) -> AsyncIterator[Send]:
    """Requests wait until their window closes, by size or time, then all go into the engine's continuous batching."""
    runner, window = _Runner(engine), Window(size, wait_s)

    async def work(call: Call, progress: Progress) -> None:
        await window.passed()
        await runner.run(call, progress)

    yield _send(work)


@asynccontextmanager
async def static_batches(engine: Engine, size: int, wait_s: float) -> AsyncIterator[Send]:
    """A window is collected and run until ALL its answers are done, which are then given out; then the next one."""
    batches = StaticBatches(_Runner(engine).run, size, wait_s)
    serving = asyncio.create_task(batches.serve())
    try:
        yield _send(batches.work)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


@asynccontextmanager
async def product(base_url: str) -> AsyncIterator[Send]:
    """Sluice over HTTP: gateway, ready set, Celery, worker, engine, and all the way back."""
    async with HttpClient(base_url) as client:
        yield client.send


class Window:
    """Opens with the first that comes, closes after ``wait_s`` seconds or with the one that makes ``size``."""

    def __init__(self, size: int, wait_s: float) -> None:
        self._size, self._wait_s = size, wait_s
        self._closed: asyncio.Event | None = None
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    async def passed(self) -> None:
        """Join the open window and wait until it closes."""
        if self._closed is None:
            self._closed, self._count = asyncio.Event(), 0
            self._timer = asyncio.get_running_loop().call_later(self._wait_s, self._close)
        closed = self._closed
        self._count += 1
        if self._count >= self._size:
            self._close()
        await closed.wait()

    def _close(self) -> None:
        if self._closed is not None and self._timer is not None:
            self._timer.cancel()
            self._closed.set()
            self._closed = None


@dataclass(slots=True)
class _Entry:
    call: Call
    progress: Progress
    came_s: float
    done: asyncio.Event = field(default_factory=asyncio.Event)


class StaticBatches:
    """Batches of at most ``size`` calls, one batch at a time; ``serve`` runs them with ``run``."""

    def __init__(self, run: Work, size: int, wait_s: float) -> None:
        self._run, self._size, self._wait_s = run, size, wait_s
        self._waiting: asyncio.Queue[_Entry] = asyncio.Queue()

    async def work(self, call: Call, progress: Progress) -> None:
        """Wait until the batch of this call is done."""
        entry = _Entry(call, progress, asyncio.get_running_loop().time())
        self._waiting.put_nowait(entry)
        await entry.done.wait()

    async def serve(self) -> None:
        """Run batch after batch until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._collect()
            async with asyncio.TaskGroup() as running:
                for entry in batch:
                    running.create_task(_awaited(self._run(entry.call, entry.progress)))
            for entry in batch:
                entry.progress.first_s = loop.time()
                entry.done.set()

    async def _collect(self) -> list[_Entry]:
        batch = [await self._waiting.get()]
        # Time is up at once if the batch before took longer; what waits already is taken all the same.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(batch[0].came_s + self._wait_s):
                while len(batch) < self._size:
                    batch.append(await self._waiting.get())
        return batch


class _Runner:
    """Runs calls on the engine as streams of one tenant of its own, so that no run finds prefixes of another."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._salt = token_hex(16)

    async def run(self, call: Call, progress: Progress) -> None:
        loop = asyncio.get_running_loop()
        job = Job(str(uuid4()), "chat", call.body, stream=True, cache_salt=self._salt)
        async with aclosing(self._engine.run(job)) as frames:  # type: ignore[type-var]  # every engine's is a generator
            async for frame in frames:
                progress.tokens = frame.usage.completion_tokens
                if progress.first_s is None and progress.tokens:
                    progress.first_s = loop.time()


def _send(work: Work) -> Send:
    async def send(call: Call, due_s: float, end_s: float) -> Outcome:
        progress, status, error_code = Progress(), 200, ""
        try:
            async with asyncio.timeout_at(end_s):
                await work(call, progress)
        except TimeoutError:
            status, error_code = 0, UNFINISHED
        now_s = asyncio.get_running_loop().time()
        ttft_s = None if progress.first_s is None else progress.first_s - due_s
        return Outcome(status, ttft_s, now_s - due_s, progress.tokens, error_code, due_s)

    return send


async def _awaited(work: Awaitable[None]) -> None:
    await work
