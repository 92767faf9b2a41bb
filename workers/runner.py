"""The runner: claims what its engine has room for, and has it run.

One runner for each worker process, on the engine's event loop. It claims when a ticket says that there is work, when
room comes free (no message needed), and when the heart sees items waiting. Nothing is bound to the engine before the
engine has room; how much room there is, the governor says.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from redis.exceptions import RedisError

from domain.config import Config
from domain.outcome import RollbackCause
from tracing import logs, metrics, spans
from tracing.clock import now_us
from workers import batch_span
from workers.announcer import Announcer
from workers.below_gateway import BelowGateway
from workers.delays import Delays
from workers.engines.port import Engine, EngineDead, EngineInfo
from workers.executor import Executor
from workers.governor import Governor
from workers.orders import Orders
from workers.outbox import Outbox
from workers.ready.item import Claim
from workers.ready.ready_set import ReadySet
from workers.running import Claiming
from workers.state import DRAINING, FAILED, READY, OwnState
from workers.strays import Strays

log = logs.get(__name__)

TICK_S = 0.25

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
        self._claiming = asyncio.Lock()
        self._pull_wanted = asyncio.Event()
        self._governor = Governor(config, engine)
        self._outbox = Outbox(ready, worker_id, self.rooms)
        self.delays = Delays(config)
        self._executor = Executor(
            *(ready, worker_id, engine, self._governor, self._outbox, self.delays),
            on_room=self._pull_wanted.set,
            on_dead=self._die,
        )
        self._orders = Orders(ready.redis, worker_id, self._executor.abort)
        self._strays = Strays(ready, worker_id, self._executor.running)
        self._below = BelowGateway(config, worker_id, engine, ready.redis, own)
        self._padding = (0, 0)
        self._computed = (0, 0, 0)
        self._on_dead: Callable[[str], None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._telling: set[asyncio.Task[None]] = set()
        self.announcer = Announcer()

    async def serve(self, info: EngineInfo, on_dead: Callable[[str], None]) -> None:
        """Begin to take work. ``on_dead`` is called once, with the reason, when the engine is gone."""
        self._executor.version, self._on_dead = info.version, on_dead
        await self._ready.load()
        works = (
            *(self._outbox.run(), self._orders.follow(), self._pull(), self._strays.watch()),
            *(self._tick_for_ever(), self._below.run()),
        )
        self._tasks = [asyncio.create_task(work) for work in works]
        self._own.to(READY)
        metrics.engine_up.set(1)
        self._pull_wanted.set()

    # --- claiming -------------------------------------------------------------------------------------------------

    async def claim_and_run(self, ticket: Claiming) -> BatchReport:
        """Claim a batch for a ticket and wait until all its items have ended."""
        batch_id = f"b-{secrets.token_hex(6)}"
        claim = await self._claim(batch_id, ticket)
        report = BatchReport(batch_id, len(claim.items), claim.waiting, claim.other_workers)
        await self._executor.ended(claim.items)
        return report

    async def _claim(self, batch_id: str, how: Claiming) -> Claim:
        async with self._claiming:
            room = self._governor.room(_now_ms())
            if self._own.state != READY or room.seats <= 0:
                return await self._nothing_claimed()
            model, affinity = self._own.model, self._governor.affinity()
            claim = await self._ready.claim(self._worker_id, model, batch_id, room, affinity)
            if claim is None:
                self.on_taken_for_dead()
                return Claim((), 0, ())
            self._executor.waiting = claim.waiting
            self._start(claim, how)
        if claim.items:
            metrics.batch_size.labels(how.trigger).observe(len(claim.items))
        return claim

    async def _nothing_claimed(self) -> Claim:
        """No room here: say who has some, so that the ticket can be passed on."""
        others: set[str] = set()
        for qos_class in self._config.worker_classes:
            rooms = await self._ready.redis.hgetall(f"sl:room:{self._own.model}:{qos_class}")
            found = cast("dict[bytes, bytes]", rooms)
            others |= {name.decode() for name, room in found.items() if int(room) > 0}
        return Claim((), 0, tuple(sorted(others - {self._worker_id})))

    def _start(self, claim: Claim, how: Claiming) -> None:
        room = self._engine.room()
        used = 1000 * (room.kv_blocks - room.free_kv_blocks) // room.kv_blocks if room.kv_blocks else 0
        how = replace(how, held_us=now_us(), items=len(claim.items), kv_usage_permille=used)
        for item in claim.items:
            self._executor.start(item, self._orders.early(item.request_id), how)
        if claim.items and spans.are_on():
            task = asyncio.create_task(self._tell_batch(claim, how), name="batch-span")
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_batch(self, claim: Claim, how: Claiming) -> None:
        await self._executor.ended(claim.items)
        batch_span.emit(self._worker_id, claim.items, how)

    async def _pull(self) -> None:
        """Claim whenever room came free: an engine that is busy needs no tickets."""
        while True:
            await self._pull_wanted.wait()
            self._pull_wanted.clear()
            batch_id = f"b-{secrets.token_hex(6)}"
            try:
                claim = await self._claim(batch_id, Claiming("pull"))
            except (RedisError, OSError) as error:
                log.warning("pull_failed", error=str(error))  # the heart asks again
                continue
            kwargs: dict[str, object] = {"model": self._own.model, "rung_by": "room came free"}
            if claim.items and self.announcer.started(batch_id, BATCH_TASK, kwargs):
                self._announced = asyncio.create_task(self._announce(batch_id, claim), name=batch_id)

    async def _announce(self, batch_id: str, claim: Claim) -> None:
        started = time.monotonic()
        await self._executor.ended(claim.items)
        result: dict[str, object] = {"batch_id": batch_id, "items": len(claim.items), "still_waiting": claim.waiting}
        self.announcer.ended(batch_id, result, time.monotonic() - started)

    # --- now and then -------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick()
            except (RedisError, OSError) as error:
                log.warning("tick_failed", error=str(error))

    async def _tick(self) -> None:
        waiting, hits = self._executor.waiting, self._executor.prefix_hits
        self._governor.observe(_now_ms(), waiting)
        await self.delays.follow(self._ready.redis)
        self._own.note(**self._governor.facts(), prefix_hit_rate=round(hits.rate(_now_ms()), 3))
        metrics.in_flight_cap.set(self._governor.cap.cap)
        self._note_padding()
        self._note_computed()
        if waiting:
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

    def _note_computed(self) -> None:
        room = self._engine.room()
        computed = (room.prompt_tokens, room.cached_tokens, room.generated_tokens)
        for kind, now, before in zip(("prompt", "cached", "generated"), computed, self._computed, strict=True):
            metrics.computed.labels(kind).inc(now - before if now >= before else now)  # started anew, it begins at 0
        self._computed = computed

    async def _tell_progress(self) -> None:
        """Output counts in the fair order as it is produced."""
        changed = [one for one in self._executor.running.values() if one.usage.completion_tokens > one.told_tokens]
        if not changed:
            return
        pipeline = self._ready.redis.pipeline(transaction=False)
        counts = {one.item.request_id: one.usage.completion_tokens for one in changed}
        self._ready.queue_progress(pipeline, self._worker_id, counts)
        await pipeline.execute()
        for one in changed:
            one.told_tokens = counts[one.item.request_id]

    # --- death and stopping ---------------------------------------------------------------------------------

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
        await self._executor.all_ended(timeout_s)
        await self._executor.give_all_back(RollbackCause.WORKER_STOPPED)
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
        await self._executor.give_all_back(RollbackCause.ENGINE_ERROR)

    # --- for the heart, on its thread ---------------------------------------------------------------------------------

    def rooms(self) -> str:
        """Sequences free for each class, as the scripts take them; none unless in service."""
        return self._governor.rooms if self._own.state == READY else self._governor.no_room()

    def running(self) -> int:
        """Items on the engine."""
        return len(self._executor.running)

    def on_waiting(self) -> None:
        """Look for work though no ticket came (it may have been lost)."""
        self._loop.call_soon_threadsafe(self._pull_wanted.set)

    def on_taken_for_dead(self) -> None:
        """Another worker runs what was held here: stop it at once."""
        self._loop.call_soon_threadsafe(self._executor.drop_all)

    def touch_loop(self, seen: Callable[[], None]) -> None:
        """Call ``seen`` from the loop."""
        self._loop.call_soon_threadsafe(seen)


def _now_ms() -> int:
    return int(time.time() * 1000)
