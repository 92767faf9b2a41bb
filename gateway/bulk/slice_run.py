"""Works one slice off: each line is sent, each answer is written, and what is done is told every two seconds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from domain.bulk.line import BulkLine, LineError, read_line
from gateway.bulk.byte_room import ByteRoom
from gateway.bulk.call import Answered
from gateway.bulk.part import PartWriter, Result, read_tally
from gateway.bulk.reading import Line, read_lines
from gateway.bulk.result_line import answered_line, usage_of
from gateway.bulk.rows import DATABASE_ERRORS, Rows
from gateway.bulk.sender import Sender
from tenants.bulk.slices import beat, leave_slice
from tenants.models import BulkSlice
from tracing import logs, metrics

log = logs.get(__name__)

BEAT_S = 2.0
TURN_S = 60.0
"""After so long a slice goes behind those that wait; a few slices are never in the way of many jobs."""
IDLE_TURN_S = 10.0
"""Likewise one whose requests are not taken at present."""
READ_LINES, READ_BYTES = 16, 1 << 20
"""Lines read at once, about."""
MAX_LINES_OPEN = 64
"""Lines of one slice that are under way, those that wait for their turn too."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the slices of one process share.

    Attributes:
        rows: the database.
        bytes: lines that are under way.
        max_line_bytes: longer lines are refused.
        others_wait: whether some slice waits for its turn.
    """

    rows: Rows
    bytes: ByteRoom
    max_line_bytes: int
    others_wait: Callable[[], Awaitable[bool]]


class SliceRun:
    """One attempt at a slice that this process holds. Use from one event loop."""

    def __init__(self, piece: BulkSlice, sender: Sender, place: Place, path: Path, directory: Path) -> None:
        """Nothing is sent yet.

        Args:
            piece: the slice, taken.
            sender: sends its job's requests.
            place: what it shares with other slices.
            path: the job's file.
            directory: where its results are written; it is there.
        """
        self._piece, self._job = piece, piece.job
        self._sender, self._place = sender, place
        self._path, self._directory = path, directory
        self._room = asyncio.Semaphore(MAX_LINES_OPEN)
        self._open: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def leave(self) -> None:
        """End as soon as can be: the process stops."""
        self._sender.leave()

    async def run(self) -> bool:
        """Work until all lines have results, or the turn is over; return whether all have.

        Raises:
            OSError: the file cannot be read, or a result not be written; what was written counts.
        """
        self._tally = await asyncio.to_thread(read_tally, self._directory, self._piece.number)
        self._writer = PartWriter(self._directory, self._piece.number, self._piece.attempt)
        beating = asyncio.create_task(self._beat())
        try:
            await self._work()
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            await self._leave()
        if self._failure is not None:
            raise self._failure
        return self._is_done()

    async def _work(self) -> None:
        try:
            async for line in self._lines():
                if not await self._begin(line):
                    break
        except BaseException:
            self._sender.leave()
            raise
        finally:
            while self._open:
                await asyncio.wait(self._open)

    def _is_done(self) -> bool:
        return len(self._tally.numbers) >= self._piece.lines

    async def _lines(self) -> AsyncIterator[Line]:
        """The lines that have no result yet, read some at a time off the event loop."""
        piece = self._piece
        lines = read_lines(self._path, self._place.max_line_bytes, piece.offset, piece.size_bytes, piece.first_line)
        while some := await asyncio.to_thread(_take, lines):
            for line in some:
                if line.number not in self._tally.numbers:
                    yield line

    async def _begin(self, line: Line) -> bool:
        """Begin with a line once there is room; False if no more are to be begun."""
        if not self._sender.is_going:
            return False
        await self._room.acquire()
        await self._place.bytes.take(len(line.text))
        task = asyncio.create_task(self._answer(line))
        self._open.add(task)
        task.add_done_callback(lambda done: self._ended(done, len(line.text)))
        return True

    def _ended(self, task: "asyncio.Task[None]", size: int) -> None:
        self._open.discard(task)
        self._room.release()
        self._place.bytes.give(size)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._sender.leave()

    async def _answer(self, line: Line) -> None:
        try:
            asked = read_line(line.text, self._job.endpoint)
        except LineError as error:  # it was checked: somebody changed the file
            log.error("bulk_line_changed", job_id=self._job.public_id, line=line.number, code=error.code)
            raise OSError("the file is not what it was when it was checked") from error
        answered = await self._sender.answer(asked)
        if answered is not None:
            self._write(line, asked, answered)

    def _write(self, line: Line, asked: BulkLine, answered: Answered) -> None:
        text = answered_line(self._job.public_id, line.number, asked.custom_id, answered)
        result = Result(line.number, answered.status < 400, usage_of(answered), text)
        self._writer.write(result)
        self._tally.add(result)
        metrics.bulk_requests.labels("completed" if result.is_answer else "failed").inc()

    async def _beat(self) -> None:
        """Tell how far it is; leave when it is to be left, and let others have their turn."""
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(BEAT_S)
            turn_s = IDLE_TURN_S if self._sender.waits_for else TURN_S
            if asyncio.get_running_loop().time() > began + turn_s and await self._place.others_wait():
                self._sender.stop()
            if not await self._tell():
                self._sender.leave()

    async def _tell(self) -> bool:
        """Tell what is safe on the disk; return whether to go on."""
        counts, waiting_for = self._tally.counts(), self._sender.waits_for
        try:
            await asyncio.to_thread(self._writer.sync)
            return await self._place.rows.ask(lambda: beat(self._piece, counts, waiting_for))
        except DATABASE_ERRORS as error:
            log.warning("bulk_beat_failed", job_id=self._job.public_id, error=type(error).__name__)
            return True  # the lease says when it is too late
        except Exception as error:  # whatever it was: without a lease it must not go on
            self._failure = error
            return False

    async def _leave(self) -> None:
        await asyncio.to_thread(self._writer.sync)
        self._writer.close()
        counts, is_done = self._tally.counts(), self._is_done()
        await self._place.rows.ask(lambda: leave_slice(self._piece, counts, is_done=is_done))


def _take(lines: Iterator[Line]) -> list[Line]:
    some: list[Line] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line.text)
        if len(some) >= READ_LINES or size >= READ_BYTES:
            break
    return some
