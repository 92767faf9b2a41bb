"""The runner: claims what its engine has room for, runs it, and sends every piece back.

One runner for each worker process, on the engine's event loop. It claims when a ticket says that there is work, when
room comes free (no message needed), and when the heart sees items waiting. Nothing is bound to the engine before the
engine has room.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

import orjson
from redis.exceptions import RedisError

from domain.config import Config
from domain.outcome import Outcome, RollbackCause
from domain.qos import POLICIES, QosClass
from domain.usage import Usage
from tracing import logs, metrics
from workers import wire
from workers.announcer import Announcer
from workers.engines.port import Endpoint, Engine, EngineDead, EngineInfo, Job, RequestFailed, RequestRejected
from workers.outbox import Outbox
from workers.ready.item import Claim, ClaimedItem, Ending
from workers.ready.ready_set import ReadySet
from workers.ready.stream import read_stream
from workers.state import DRAINING, FAILED, READY, OwnState

log = logs.get(__name__)

LOSE_RETRY_S = 0.2
MAX_EARLY_ORDERS = 1_000
AUDIT_S = 2.0
BATCH_TASK = "sluice.batch"


@dataclass(slots=True)
class Running:
    """An item on the engine: its task, and how it is to end if somebody aborts it."""

    item: ClaimedItem
    task: "asyncio.Task[None] | None" = None
    abort: Ending | None = None
    usage: Usage = field(default_factory=Usage)
    first_token_ms: int | None = None
    begun: bool = False
    stopped: bool = False

    def stop(self) -> None:
        """Stop the task. One that is cancelled before its first step would never clean up, so it stops itself there."""
        self.stopped = True
        if self.begun and self.task:
            self.task.cancel()


@dataclass(slots=True)
class BatchReport:
    """What became of one claim; shown in Flower as the task's result."""

    batch_id: str
    items: int = 0
    still_waiting: int = 0
    passed_to: str = ""


class Runner:
    """Keeps one engine busy. All methods but those named in ``heart.Beating`` run on the engine's loop."""

    def __init__(self, config: Config, worker_id: str, engine: Engine, ready: ReadySet, own: OwnState) -> None:
        self._config, self._worker_id, self._engine, self._ready, self._own = config, worker_id, engine, ready, own
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(ready, worker_id, self.free_seqs)
        self._running: dict[str, Running] = {}
        self._used_seqs = 0
        self._claiming = asyncio.Lock()
        self._pull_wanted = asyncio.Event()
        self._info: EngineInfo | None = None
        self._on_dead: Callable[[str], None] | None = None
        self._strays: set[str] = set()
        self._early_orders: OrderedDict[str, Ending] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []
        self.announcer = Announcer()

    async def serve(self, info: EngineInfo, on_dead: Callable[[str], None]) -> None:
        """Begin to take work. ``on_dead`` is called once, with the reason, when the engine is gone."""
        self._info, self._on_dead = info, on_dead
        await self._ready.load()
        self._tasks = [
            asyncio.create_task(self._outbox.run(), name="outbox"),
            asyncio.create_task(self._listen(), name="orders"),
            asyncio.create_task(self._pull(), name="pull"),
            asyncio.create_task(self._audit(), name="audit"),
        ]
        self._own.to(READY)
        metrics.engine_up.set(1)
        self._pull_wanted.set()

    # --- claiming -------------------------------------------------------------------------------------------------

    async def claim_and_run(self, trigger: str) -> BatchReport:
        """Claim a batch and wait until all its items have ended."""
        batch_id = f"b-{secrets.token_hex(6)}"
        claim = await self._claim(batch_id, trigger)
        report = BatchReport(batch_id, len(claim.items), claim.waiting, claim.other_worker)
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
            free = self.free_seqs()
            if self._own.state != READY or free <= 0:
                return await self._nothing_claimed()
            claim = await self._ready.claim(
                *(self._worker_id, self._own.model, free, batch_id),
                idle=not self._running,
                reserves=self._reserves(),
            )
            if claim is None:
                self.on_taken_for_dead()
                return Claim((), 0, "")
            self._start(claim)
        if claim.items:
            metrics.batch_size.labels(trigger).observe(len(claim.items))
        return claim

    async def _nothing_claimed(self) -> Claim:
        """No room here: say who has some, so that the ticket can be passed on."""
        rooms = cast("dict[bytes, bytes]", await self._ready.redis.hgetall(f"sl:room:{self._own.model}"))
        others = {name.decode(): int(room) for name, room in rooms.items() if name.decode() != self._worker_id}
        best = max(others, key=lambda name: others[name], default="")
        return Claim((), 0, best if best and others[best] > 0 else "")

    def _reserves(self) -> dict[QosClass, int]:
        """Sequences that each class must leave free, most urgent class first."""
        total = self._config.max_num_seqs
        return {qos_class: int(total * policy.reserve_share) for qos_class, policy in POLICIES.items()}

    def _start(self, claim: Claim) -> None:
        for item in claim.items:
            running = Running(item, abort=self._early_orders.pop(item.request_id, None))
            running.stopped = running.abort is not None
            self._running[item.request_id] = running
            self._used_seqs += item.sequences
            running.task = asyncio.create_task(self._run(running), name=item.request_id)
            metrics.queue_wait.labels(item.qos_class.value).observe(item.waited_ms / 1000)
        metrics.running.set(len(self._running))

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

    async def _audit(self) -> None:
        while True:
            await asyncio.sleep(AUDIT_S)
            try:
                await self.give_back_strays()
            except (RedisError, OSError) as error:
                log.warning("audit_failed", error=str(error))

    async def give_back_strays(self) -> None:
        """Give back what the store thinks is held here but does not run: the reply to a claim was lost on its way.

        An item that is seen so once may just have ended; seen twice, nobody else will ever touch it.

        Raises:
            redis.exceptions.RedisError: the store does not answer.
        """
        members = cast("set[bytes]", await self._ready.redis.smembers(f"sl:held:{self._worker_id}"))
        strays = {name for member in members if (name := member.decode()) not in self._running}
        for request_id in strays & self._strays:
            log.warning("stray_item", request_id=request_id)
            attempt = cast("bytes | None", await self._ready.redis.hget(f"sl:item:{request_id}", "attempt"))
            await self._ready.lose(request_id, self._worker_id, int(attempt or 0), RollbackCause.WORKER_LOST.value)
        self._strays = strays

    # --- running --------------------------------------------------------------------------------------------------

    async def _run(self, running: Running) -> None:
        item = running.item
        running.begun = True
        try:
            ending, event = await self._answer(running)
        except (RequestFailed, EngineDead) as error:
            await self._give_back(running, error)
        else:
            self._finish(running, ending, event)
        finally:
            self._release(item)
            self._pull_wanted.set()

    async def _answer(self, running: Running) -> tuple[Ending, wire.Event]:
        item = running.item
        head = [item.request_id, item.attempt, -1]
        try:
            await self._stream(running)
        except RequestRejected as error:
            ending = self._ending(running, Outcome.REJECTED, error.status, str(error.error.get("code") or ""))
            event = [*head, "E", Outcome.REJECTED.value, error.status, orjson.dumps(error.error)]
        except asyncio.CancelledError:
            if running.abort is None:
                raise
            ending = self._ending(running, running.abort.outcome, running.abort.status, running.abort.code)
            event = [*head, "E", ending.outcome, ending.status, b""]
        else:
            ending, usage = self._ending(running, Outcome.COMPLETED, 200, ""), running.usage
            event = [*head, "D", usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]
        return ending, event

    async def _stream(self, running: Running) -> None:
        if running.stopped:
            raise asyncio.CancelledError
        item, sequence = running.item, 0
        async with aclosing(self._engine.run(_job(item))) as frames:  # type: ignore[type-var]  # engines yield generators
            async for frame in frames:
                usage = frame.usage
                running.usage = usage
                if running.first_token_ms is None:
                    running.first_token_ms = _now_ms()
                self._outbox.frame(
                    item.gateway_id,
                    [
                        *(item.request_id, item.attempt, sequence, "F", frame.data),
                        *(usage.prompt_tokens, usage.completion_tokens),
                    ],
                )
                sequence += 1

    def _ending(self, running: Running, outcome: str, status: int, code: str) -> Ending:
        return Ending(outcome, status, code, running.usage, running.first_token_ms)

    def _finish(self, running: Running, ending: Ending, event: wire.Event) -> None:
        item, usage = running.item, running.usage
        self._outbox.finish(item, ending, self._info.version if self._info else "", event)
        metrics.tokens.labels(item.model, "prompt").inc(usage.prompt_tokens)
        metrics.tokens.labels(item.model, "cached").inc(usage.cached_tokens)
        metrics.tokens.labels(item.model, "completion").inc(max(0, usage.completion_tokens - item.delivered_tokens))

    def _release(self, item: ClaimedItem) -> None:
        self._running.pop(item.request_id, None)
        self._used_seqs -= item.sequences
        metrics.running.set(len(self._running))

    async def _give_back(self, running: Running, error: Exception) -> None:
        cause = RollbackCause.ENGINE_DEAD if isinstance(error, EngineDead) else RollbackCause.ENGINE_ERROR
        log.warning("item_given_back", request_id=running.item.request_id, cause=cause.value, error=str(error))
        if isinstance(error, EngineDead):
            self._die(str(error))
        await self._outbox.flushed()
        await self._lose(running.item, cause)

    async def _lose(self, item: ClaimedItem, cause: RollbackCause) -> None:
        metrics.retries.labels(cause.value).inc()
        while True:
            try:
                await self._ready.lose(item.request_id, self._worker_id, item.attempt, cause.value)
                return
            except (RedisError, OSError) as error:
                log.warning("lose_retry", request_id=item.request_id, error=str(error))
                await asyncio.sleep(LOSE_RETRY_S)

    # --- orders, death and stopping ---------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Follow the orders of gateways and of the sweep."""
        stream, last = f"sl:ctl:{self._worker_id}", b"0"
        while True:
            try:
                orders = await read_stream(self._ready.redis, stream, last, block_ms=1000, count=100)
            except (RedisError, OSError) as error:
                log.warning("orders_retry", error=str(error))
                await asyncio.sleep(LOSE_RETRY_S)
                continue
            for last, fields in orders:  # noqa: B007 - the last id is where to go on
                self._obey(fields)

    def _obey(self, fields: dict[bytes, bytes]) -> None:
        request_id = fields.get(b"abort", b"").decode()
        if not request_id:
            return
        outcome, code = fields[b"outcome"].decode(), fields[b"code"].decode()
        ending = Ending(outcome, int(fields[b"status"]), code, Usage(), None)
        running = self._running.get(request_id)
        if running is None:
            # The order was faster than the reply to the claim, or the item has ended.
            self._early_orders[request_id] = ending
            if len(self._early_orders) > MAX_EARLY_ORDERS:
                self._early_orders.popitem(last=False)
        elif running.abort is None:
            running.abort = ending
            running.stop()

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
            await self._lose(running.item, RollbackCause.ENGINE_DEAD)
            running.stop()

    # --- for the heart, on its thread ---------------------------------------------------------------------------------

    def free_seqs(self) -> int:
        """Sequences free of ``max_num_seqs``; 0 unless in service."""
        return max(0, self._config.max_num_seqs - self._used_seqs) if self._own.state == READY else 0

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
        """Call ``seen`` from the loop, where the engine's free KV blocks can be asked for too."""
        self._loop.call_soon_threadsafe(self._look, seen)

    def _look(self, seen: Callable[[], None]) -> None:
        self._own.note(free_kv_blocks=self._engine.room().free_kv_blocks)
        seen()

    def _drop_all(self) -> None:
        for running in list(self._running.values()):
            running.stop()


def _job(item: ClaimedItem) -> Job:
    return Job(
        request_id=item.request_id,
        endpoint=cast("Endpoint", item.endpoint),
        body=item.body,
        stream=item.stream,
        priority=item.priority,
        cache_salt=item.cache_salt,
        delivered_text=item.delivered_text,
        delivered_tokens=item.delivered_tokens,
        trace_headers={"traceparent": item.traceparent} if item.traceparent else {},
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
