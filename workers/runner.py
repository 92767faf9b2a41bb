"""The runner: claims what its engine has room for, runs it, and sends every piece back.

One runner for each worker process, on the engine's event loop. It claims when a ticket says that there is work, when
room comes free (no message needed), and when the heart sees items waiting. Nothing is bound to the engine before the
engine has room; how much room there is, the governor says.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

import orjson
from redis.exceptions import RedisError

from domain.config import Config
from domain.outcome import Outcome, RollbackCause
from tracing import logs, metrics
from workers import run_span, wire
from workers.announcer import Announcer
from workers.engines.port import Engine, EngineDead, EngineInfo, Frame, RequestFailed, RequestRejected
from workers.governor import Governor
from workers.orders import Orders
from workers.outbox import Outbox
from workers.prefix_hits import PrefixHits
from workers.ready.item import Claim, ClaimedItem, Ending
from workers.ready.ready_set import ReadySet
from workers.running import Running, job_of
from workers.state import DRAINING, FAILED, READY, OwnState
from workers.strays import Strays

log = logs.get(__name__)

LOSE_RETRY_S = 0.2
TICK_S = 0.25
TRIAL_S = 1.0
"""A suspect whose answer shows no tokens until it is whole is watched for so long."""

BATCH_TASK = "sluice.batch"


@dataclass(slots=True)
class BatchReport:
    """What became of one claim; shown in Flower as the task's result."""

    batch_id: str
    items: int = 0
    still_waiting: int = 0
    passed_to: tuple[str, ...] = ()


class Runner:
    """Keeps one engine busy. All methods but those named in ``heart.Beating`` run on the engine's loop."""

    def __init__(self, config: Config, worker_id: str, engine: Engine, ready: ReadySet, own: OwnState) -> None:
        self._config, self._worker_id, self._engine, self._ready, self._own = config, worker_id, engine, ready, own
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Running] = {}
        self._governor = Governor(config, engine)
        self._outbox = Outbox(ready, worker_id, self.rooms)
        self._orders = Orders(ready.redis, worker_id, self._obey)
        self._strays = Strays(ready, worker_id, self._running)
        self._claiming = asyncio.Lock()
        self._pull_wanted = asyncio.Event()
        self._waiting = 0
        self._padding = (0, 0)
        self._rooms = ""
        self._info: EngineInfo | None = None
        self._on_dead: Callable[[str], None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._prefix_hits = PrefixHits()
        self.announcer = Announcer()

    async def serve(self, info: EngineInfo, on_dead: Callable[[str], None]) -> None:
        """Begin to take work. ``on_dead`` is called once, with the reason, when the engine is gone."""
        self._info, self._on_dead = info, on_dead
        await self._ready.load()
        works = (self._outbox.run(), self._orders.follow(), self._pull(), self._strays.watch(), self._tick_for_ever())
        self._tasks = [asyncio.create_task(work) for work in works]
        self._own.to(READY)
        metrics.engine_up.set(1)
        self._update_rooms()
        self._pull_wanted.set()

    # --- claiming -------------------------------------------------------------------------------------------------

    async def claim_and_run(self, trigger: str) -> BatchReport:
        """Claim a batch and wait until all its items have ended."""
        batch_id = f"b-{secrets.token_hex(6)}"
        claim = await self._claim(batch_id, trigger)
        report = BatchReport(batch_id, len(claim.items), claim.waiting, claim.other_workers)
        await self._ended(claim)
        return report

    async def _ended(self, claim: Claim) -> None:
        """Wait until all items of a batch have ended."""
        held = [self._running.get(item.request_id) for item in claim.items]
        tasks = [running.task for running in held if running and running.task]
        if tasks:
            await asyncio.wait(tasks)

    async def _claim(self, batch_id: str, trigger: str) -> Claim:
        async with self._claiming:
            room = self._governor.room(_now_ms())
            if self._own.state != READY or room.seats <= 0:
                return await self._nothing_claimed()
            model, affinity = self._own.model, self._governor.affinity()
            claim = await self._ready.claim(self._worker_id, model, batch_id, room, affinity)
            if claim is None:
                self.on_taken_for_dead()
                return Claim((), 0, ())
            self._waiting = claim.waiting
            self._start(claim)
        if claim.items:
            metrics.batch_size.labels(trigger).observe(len(claim.items))
        return claim

    async def _nothing_claimed(self) -> Claim:
        """No room here: say who has some, so that the ticket can be passed on."""
        others: set[str] = set()
        for qos_class in self._config.worker_classes:
            rooms = await self._ready.redis.hgetall(f"sl:room:{self._own.model}:{qos_class}")
            found = cast("dict[bytes, bytes]", rooms)
            others |= {name.decode() for name, room in found.items() if int(room) > 0}
        return Claim((), 0, tuple(sorted(others - {self._worker_id})))

    def _start(self, claim: Claim) -> None:
        for item in claim.items:
            running = Running(item, abort=self._orders.early(item.request_id))
            running.stopped = running.abort is not None
            self._running[item.request_id] = running
            self._governor.started(item, _now_ms())
            self._note_start(item)
            running.task = asyncio.create_task(self._run(running), name=item.request_id)
        metrics.running.set(len(self._running))
        self._update_rooms()

    def _note_start(self, item: ClaimedItem) -> None:
        metrics.queue_wait.labels(item.qos_class.value, metrics.tenant(item.tenant)).observe(item.waited_ms / 1000)
        if item.on_trial and item.trial_tokens is not None:
            self._loop.call_later(TRIAL_S, self._acquit, item)
        if item.attempt:
            log.info(
                "item_runs_again",
                request_id=item.request_id,
                retry_attempt=item.attempt,
                rollback_cause=item.last_cause,
                causes=list(item.causes),
                batch_id=item.batch_id,
                item_seq=item.item_seq,
                delivered_tokens=item.delivered_tokens,
                on_trial=item.on_trial,
            )

    async def _pull(self) -> None:
        """Claim whenever room came free: an engine that is busy needs no tickets."""
        while True:
            await self._pull_wanted.wait()
            self._pull_wanted.clear()
            batch_id = f"b-{secrets.token_hex(6)}"
            try:
                claim = await self._claim(batch_id, "pull")
            except (RedisError, OSError) as error:
                log.warning("pull_failed", error=str(error))  # the heart asks again
                continue
            kwargs: dict[str, object] = {"model": self._own.model, "rung_by": "room came free"}
            if claim.items and self.announcer.started(batch_id, BATCH_TASK, kwargs):
                self._announced = asyncio.create_task(self._announce(batch_id, claim), name=batch_id)

    async def _announce(self, batch_id: str, claim: Claim) -> None:
        started = time.monotonic()
        await self._ended(claim)
        result: dict[str, object] = {"batch_id": batch_id, "items": len(claim.items), "still_waiting": claim.waiting}
        self.announcer.ended(batch_id, result, time.monotonic() - started)

    # --- running --------------------------------------------------------------------------------------------------

    async def _run(self, running: Running) -> None:
        item, span = running.item, run_span.start(running.item)
        running.begun = True
        outcome, error = "dropped", ""
        try:
            ending, event = await self._answer(running)
        except (RequestFailed, EngineDead) as failure:
            outcome, error = "given_back", str(failure)
            await self._give_back(running, failure)
        else:
            outcome = ending.outcome
            self._release(item)
            self._finish(running, ending, event)
        finally:
            run_span.end(span, running, outcome, error)
            self._release(item)
            self._pull_wanted.set()

    async def _answer(self, running: Running) -> tuple[Ending, wire.Event]:
        item = running.item
        head = [item.request_id, item.attempt, -1]
        try:
            await self._stream(running)
        except RequestRejected as error:
            ending = running.ending(Outcome.REJECTED, error.status, str(error.error.get("code") or ""))
            shown = {**error.error, "retry_after_s": error.retry_after_s} if error.retry_after_s else error.error
            event = [*head, "E", Outcome.REJECTED.value, error.status, orjson.dumps(shown)]
        except asyncio.CancelledError:
            if running.abort is None:
                raise
            ending = running.ending(running.abort.outcome, running.abort.status, running.abort.code)
            event = [*head, "E", ending.outcome, ending.status, b""]
        else:
            ending, usage = running.ending(Outcome.COMPLETED, 200, ""), running.usage
            event = [*head, "D", usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]
        return ending, event

    async def _stream(self, running: Running) -> None:
        if running.stopped:
            raise asyncio.CancelledError
        item, sequence = running.item, 0
        async with aclosing(self._engine.run(job_of(item))) as frames:  # type: ignore[type-var]  # engines yield generators
            async for frame in frames:
                self._note_frame(running, frame)
                usage, ids = frame.usage, wire.pack_ids(frame.token_ids)
                self._outbox.frame(
                    item.gateway_id,
                    [
                        *(item.request_id, item.attempt, sequence, "F", frame.data),
                        *(usage.prompt_tokens, usage.completion_tokens, ids),
                    ],
                )
                sequence += 1

    def _note_frame(self, running: Running, frame: Frame) -> None:
        item, running.usage = running.item, frame.usage
        if running.first_token_ms is None:
            running.first_token_ms = _now_ms()
        if self._governor.made(item.request_id, running.made_tokens) and self._waiting:
            self._pull_wanted.set()  # its prompt is computed: there is room for another one's
        if item.on_trial and item.trial_tokens is not None and running.made_tokens >= item.trial_tokens:
            self._acquit(item)

    def _finish(self, running: Running, ending: Ending, event: wire.Event) -> None:
        item, usage = running.item, running.usage
        self._outbox.finish(item, ending, self._info.version if self._info else "", event)
        tenant = metrics.tenant(item.tenant)
        counts = {"prompt": usage.prompt_tokens, "cached": usage.cached_tokens, "completion": running.made_tokens}
        for kind, count in counts.items():
            metrics.tokens.labels(item.model, item.qos_class.value, tenant, kind).inc(count)
        self._note_pace(running)
        self._prefix_hits.add(_now_ms(), usage.prompt_tokens, usage.cached_tokens)

    def _note_pace(self, running: Running) -> None:
        if running.first_token_ms is not None and running.item.stream and running.made_tokens > 1:
            seconds = (_now_ms() - running.first_token_ms) / 1000 / (running.made_tokens - 1)
            metrics.output_token.labels(running.item.model, running.item.qos_class.value).observe(seconds)

    def _release(self, item: ClaimedItem) -> None:
        if self._running.pop(item.request_id, None) is not None:
            self._governor.ended(item.request_id)
            metrics.running.set(len(self._running))
            self._update_rooms()

    async def _give_back(self, running: Running, error: Exception) -> None:
        item = running.item
        cause = RollbackCause.ENGINE_DEAD if isinstance(error, EngineDead) else RollbackCause.ENGINE_ERROR
        log.warning(
            "item_given_back",
            request_id=item.request_id,
            batch_id=item.batch_id,
            item_seq=item.item_seq,
            retry_attempt=item.attempt + 1,
            rollback_cause=cause.value,
            error=str(error),
        )
        blamed = self._governor.trial if isinstance(error, EngineDead) else ""
        if isinstance(error, EngineDead):
            self._die(str(error))
        await self._outbox.flushed()
        await self._lose(item, cause, forgive=blamed not in ("", item.request_id))

    async def _lose(self, item: ClaimedItem, cause: RollbackCause, *, forgive: bool = False) -> None:
        metrics.retries.labels(cause.value).inc()
        while True:
            try:
                await self._ready.lose(item.request_id, self._worker_id, item.attempt, cause.value, forgive=forgive)
                return
            except (RedisError, OSError) as error:
                log.warning("lose_retry", request_id=item.request_id, error=str(error))
                await asyncio.sleep(LOSE_RETRY_S)

    def _acquit(self, item: ClaimedItem) -> None:
        """A suspect got past the point at which its engine died, so the next one may have its turn."""
        if self._governor.trial != item.request_id:
            return
        self._governor.trial = ""
        self._pull_wanted.set()
        self._acquitting = asyncio.create_task(
            self._ready.acquit(item.request_id, self._worker_id, item.attempt), name="acquit"
        )

    # --- now and then -------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick()
            except (RedisError, OSError) as error:
                log.warning("tick_failed", error=str(error))

    async def _tick(self) -> None:
        self._governor.observe(_now_ms(), self._waiting)
        self._update_rooms()
        facts = self._governor.facts()
        self._own.note(**facts, prefix_hit_rate=round(self._prefix_hits.rate(_now_ms()), 3))
        metrics.in_flight_cap.set(self._governor.cap.cap)
        self._note_padding()
        if self._waiting:
            self._pull_wanted.set()
        await self._tell_progress()

    def _note_padding(self) -> None:
        room, (real, padded) = self._engine.room(), self._padding
        if room.padded_tokens <= padded:
            return
        metrics.padding.labels("real").inc(room.real_tokens - real)
        metrics.padding.labels("padding").inc(room.padded_tokens - padded - (room.real_tokens - real))
        self._padding = (room.real_tokens, room.padded_tokens)
        self._own.note(padding_waste=round(1 - room.real_tokens / room.padded_tokens, 3))

    async def _tell_progress(self) -> None:
        """Output counts in the fair order as it is produced."""
        changed = [one for one in self._running.values() if one.usage.completion_tokens > one.told_tokens]
        if not changed:
            return
        pipeline = self._ready.redis.pipeline(transaction=False)
        counts = {one.item.request_id: one.usage.completion_tokens for one in changed}
        self._ready.queue_progress(pipeline, self._worker_id, counts)
        await pipeline.execute()
        for one in changed:
            one.told_tokens = counts[one.item.request_id]

    def _update_rooms(self) -> None:
        self._rooms = self._governor.room_text()

    # --- orders, death and stopping ---------------------------------------------------------------------------------

    def _obey(self, request_id: str, ending: Ending) -> bool:
        running = self._running.get(request_id)
        if running is None:
            return False
        if running.abort is None:
            running.abort = ending
            running.stop()
        return True

    def _die(self, reason: str) -> None:
        if self._own.state == FAILED:
            return
        self._own.to(FAILED, reason)
        metrics.engine_up.set(0)
        if self._on_dead:
            self._on_dead(reason)

    async def drain(self, timeout_s: float) -> None:
        """Take no more; let what runs end for ``timeout_s``, then give the rest back."""
        if self._own.state == READY:
            self._own.to(DRAINING, "stopping: running items end first")
        tasks = [running.task for running in self._running.values() if running.task]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        for running in list(self._running.values()):
            await self._lose(running.item, RollbackCause.WORKER_STOPPED)
            running.stop()
        await self._outbox.flushed()
        for task in self._tasks:
            task.cancel()

    async def probe(self) -> None:
        """Probe the engine beside its load; a wrong answer takes it out of service."""
        try:
            await self._engine.probe()
        except EngineDead as error:
            metrics.probe_failures.inc()
            log.error("probe_failed", error=str(error))
            await self.fail_all(str(error))

    async def fail_all(self, reason: str) -> None:
        """The engine cannot be trusted: give all its items back."""
        self._die(reason)
        for running in list(self._running.values()):
            await self._lose(running.item, RollbackCause.ENGINE_ERROR)
            running.stop()

    # --- for the heart, on its thread ---------------------------------------------------------------------------------

    def rooms(self) -> str:
        """Sequences free for each class, as the scripts take them; none unless in service."""
        return self._rooms if self._own.state == READY else self._governor.no_room()

    def running(self) -> int:
        """Items on the engine."""
        return len(self._running)

    def on_waiting(self) -> None:
        """Look for work though no ticket came (it may have been lost)."""
        self._loop.call_soon_threadsafe(self._pull_wanted.set)

    def on_taken_for_dead(self) -> None:
        """Another worker runs what was held here: stop it at once."""
        self._loop.call_soon_threadsafe(self._drop_all)

    def touch_loop(self, seen: Callable[[], None]) -> None:
        """Call ``seen`` from the loop."""
        self._loop.call_soon_threadsafe(seen)

    def _drop_all(self) -> None:
        for running in list(self._running.values()):
            running.stop()


def _now_ms() -> int:
    return int(time.time() * 1000)
