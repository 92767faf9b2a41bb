"""The relay: where the pieces of one answer arrive, in order and once, until its connection takes them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from domain.outcome import Outcome
from domain.trace.record import Run
from domain.usage import Usage
from tracing import logs
from tracing.clock import now_us
from workers import wire

if TYPE_CHECKING:
    from gateway.audience import Audience

log = logs.get(__name__)

# A client that reads slower than its engine writes by this many frames holds too much memory.
MAX_UNREAD_FRAMES = 50_000

MAX_TIMELINE = 2_000
"""Moments of pieces that are noted of one answer, the first ones."""


@dataclass(frozen=True, slots=True)
class End:
    """How the answer ended.

    Attributes:
        outcome: how.
        status: HTTP status.
        error: the inside of an error object as JSON, or empty.
        quarantined: it has killed two engines.
    """

    outcome: Outcome
    status: int
    error: bytes = b""
    quarantined: bool = False


@dataclass(slots=True)
class Relay:
    """One answer on its way. Filled by the reader, emptied by the connection; one event loop.

    Attributes:
        version: of the model that answered, once it has.
        follows: it shares the run of an equal request.
        audience: those that share its own run; None while nobody does.
        heard_us: when the first piece came; ``timeline`` when further ones came, with the tokens there were then.
        runs: the attempts of which a worker or the store has told.
    """

    request_id: str
    attempt: int = 0
    next_sequence: int = 0
    usage: Usage = field(default_factory=Usage)
    version: str = ""
    follows: bool = False
    audience: "Audience | None" = None
    end: End | None = None
    lost_cause: str = ""
    losses: int = 0
    client_gone: bool = False
    admitted: bool = False
    delivered: list[bytes] = field(default_factory=list)
    ids: bytearray = field(default_factory=bytearray)
    heard_us: int = 0
    timeline: list[tuple[int, int]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    _unread: deque[bytes] = field(default_factory=deque)
    _waiter: "asyncio.Future[None] | None" = None

    def accept(self, event: wire.Event) -> None:
        """Take one event; what comes twice, or from an attempt that is over, is dropped."""
        kind, attempt = event[3], event[1]
        if self.end is not None:
            return
        if kind == wire.LOST:
            self._accept_loss(event)
        elif attempt != self.attempt:
            return
        elif kind == wire.FRAME:
            self._accept_frame(event)
        elif kind == wire.DONE:
            self.usage = Usage(event[4], event[5], event[6])
            self.version = event[7].decode() if len(event) > 7 else ""  # a worker of the release before tells none
            self._note_run(event, 8)
            if self.audience is not None:
                self.audience.done()
            self.end = End(Outcome.COMPLETED, 200)
        elif kind == wire.ERROR:
            self.end = End(Outcome(event[4].decode()), event[5], event[6])
            self._note_run(event, 7)
        self.wake()

    def fail(self, outcome: Outcome, status: int, *, quarantined: bool = False) -> None:
        """End it from this side."""
        if self.end is None:
            self.end = End(outcome, status, quarantined=quarantined)
        self.wake()

    @property
    def mark(self) -> tuple[int, int, int]:
        """Changes with every event that was taken."""
        return self.attempt, self.next_sequence, self.losses

    def lose(self, attempt: int, cause: str) -> None:
        """The engine was lost; ``attempt`` is the next one."""
        self.attempt, self.next_sequence = attempt, 0
        self.lost_cause = cause
        self.losses += 1
        self.wake()

    def leave(self) -> None:
        """The client closed the connection."""
        self.client_gone = True
        self.wake()

    @property
    def delivered_ids(self) -> bytes:
        """Packed ids of all tokens so far; empty where some engine did not tell them."""
        return bytes(self.ids) if len(self.ids) == 4 * self.usage.completion_tokens else b""

    @property
    def frames(self) -> list[bytes]:
        """All frames so far, delivered or not."""
        return [*self.delivered, *self._unread]

    def forget(self) -> None:
        """Nothing was delivered after all: a whole answer starts again."""
        self.delivered.clear()
        self.ids.clear()

    def take(self) -> list[bytes]:
        """The frames that came since the last call; they count as delivered."""
        frames = list(self._unread)
        self._unread.clear()
        self.delivered += frames
        return frames

    def wake(self) -> None:
        """Let the connection look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def changed(self, timeout_s: float) -> bool:
        """Wait until there is something to look at; False when ``timeout_s`` passed in silence."""
        if self._unread or self.end or self.lost_cause or self.client_gone:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_s, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        return bool(self._unread or self.end or self.lost_cause or self.client_gone)

    def _accept_frame(self, event: wire.Event) -> None:
        sequence = event[2]
        if sequence < self.next_sequence:
            return
        if sequence > self.next_sequence or len(self._unread) >= MAX_UNREAD_FRAMES:
            log.error(
                "frames_missing",
                request_id=self.request_id,
                unread=len(self._unread),
                missing=sequence - self.next_sequence,
            )
            self.end = End(Outcome.FAILED, 502)
            return
        self.next_sequence += 1
        self.usage = Usage(event[5], self.usage.cached_tokens, event[6])
        self.ids += event[7]
        self._note_piece()
        self._note_run(event, 8)
        first = not (self.delivered or self._unread)
        self._unread.append(event[4])
        if self.audience is not None:
            self.audience.frame(event[4], event[7], first=first)

    def _note_piece(self) -> None:
        now = now_us()
        self.heard_us = self.heard_us or now
        if len(self.timeline) < MAX_TIMELINE:
            self.timeline.append((now, self.usage.completion_tokens))

    def _note_run(self, event: wire.Event, index: int) -> None:
        """Take in what is told of an attempt; what is told last is complete."""
        if len(event) <= index or not event[index]:
            return
        try:
            run = wire.unpack_run(event[index])
        except (TypeError, ValueError) as error:
            log.warning("run_not_readable", request_id=self.request_id, error=str(error))  # the answer goes on
            return
        if self.runs and self.runs[-1].attempt == run.attempt:
            self.runs[-1] = run
        else:
            self.runs.append(run)

    def _accept_loss(self, event: wire.Event) -> None:
        attempt, cause = event[1], event[4].decode()
        if attempt <= self.attempt:
            return
        told = Run(attempt=attempt - 1, lost=cause)
        if len(event) > 7:
            told = replace(
                told, worker_id=event[5].decode(), batch_id=event[6].decode(), claimed_us=1000 * int(event[7])
            )
        if self.runs and self.runs[-1].attempt == told.attempt:
            self.runs[-1] = replace(self.runs[-1], lost=cause)
        else:
            self.runs.append(told)
        self.lose(attempt, cause)
