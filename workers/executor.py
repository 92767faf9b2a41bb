"""Runs items on the engine, and sends what comes of them back: frames, endings, or the items themselves."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

import orjson
from redis.exceptions import RedisError

from domain.outcome import Outcome, RollbackCause
from domain.qos import POLICIES
from domain.trace.spans import ATTEMPT, span_id
from tracing import logs, metrics
from tracing.colour import Colour, current
from workers import wire
from workers.delays import Delays
from workers.engines.port import Engine, EngineDead, Frame, RequestFailed, RequestRejected
from workers.governor import Governor
from workers.outbox import Outbox
from workers.prefix_hits import PrefixHits
from workers.ready.item import ClaimedItem, Ending
from workers.ready.ready_set import ReadySet
from workers.running import Claiming, Running, job_of

log = logs.get(__name__)

LOSE_RETRY_S = 0.2
TRIAL_S = 1.0
"""A suspect whose answer shows no tokens until it is whole is watched for so long."""


class Executor:
    """Runs what its worker has claimed. Use from the engine's event loop only.

    Attributes:
        running: items on the engine, by request id.
        version: the engine's model version, once it has started.
        waiting: items that waited after the latest claim.
        prefix_hits: of the items that ended of late.
    """

    def __init__(
        self,
        ready: ReadySet,
        worker_id: str,
        engine: Engine,
        governor: Governor,
        outbox: Outbox,
        delays: Delays,
        *,
        on_room: Callable[[], None],
        on_dead: Callable[[str], None],
    ) -> None:
        self._ready, self._worker_id, self._engine = ready, worker_id, engine
        self._governor, self._outbox, self._delays = governor, outbox, delays
        self._on_room, self._on_dead = on_room, on_dead
        self.running: dict[str, Running] = {}
        self.version = ""
        self.waiting = 0
        self.prefix_hits = PrefixHits()

    def start(self, item: ClaimedItem, abort: Ending | None, claiming: Claiming) -> None:
        """Run an item.

        Args:
            item: what was claimed; ``claiming`` how.
            abort: how it is to end if somebody has called it off already.
            claiming: tells its gateway how it came here.
        """
        running = Running(item, claiming, abort=abort, stopped=abort is not None)
        self._note_start(item)
        self._governor.started(item, _now_ms())
        self.running[item.request_id] = running
        running.task = asyncio.create_task(self._run(running), name=item.request_id)
        metrics.running.set(len(self.running))

    async def ended(self, items: tuple[ClaimedItem, ...]) -> None:
        """Wait until all these items have left the engine."""
        held = [self.running.get(item.request_id) for item in items]
        await _wait([running for running in held if running], None)

    async def all_ended(self, timeout_s: float) -> None:
        """Wait until nothing runs, for ``timeout_s`` at most."""
        await _wait(list(self.running.values()), timeout_s)

    def abort(self, request_id: str, ending: Ending) -> bool:
        """End an item as told; False if it does not run here."""
        running = self.running.get(request_id)
        if running is None:
            return False
        if running.abort is None:
            running.abort = ending
            running.stop()
        return True

    def drop_all(self) -> None:
        """Stop everything at once; others run it."""
        for running in list(self.running.values()):
            running.stop()

    async def give_all_back(self, cause: RollbackCause) -> None:
        """Give everything back, so that it runs elsewhere."""
        for running in list(self.running.values()):
            await self._lose(running.item, cause)
            running.stop()

    def _note_start(self, item: ClaimedItem) -> None:
        metrics.queue_wait.labels(item.qos_class.value, metrics.tenant(item.tenant)).observe(item.waited_ms / 1000)
        if item.waited_ms > POLICIES[item.qos_class].tolerated_queue_ms:
            metrics.queue_wait_over.labels(item.qos_class.value).inc()
        if item.on_trial and item.trial_tokens is not None:
            asyncio.get_running_loop().call_later(TRIAL_S, self._acquit, item)
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

    async def _run(self, running: Running) -> None:
        item = running.item
        _colour(running, self.version)
        running.begun = True
        try:
            ending, event = await self._answer(running)
        except (RequestFailed, EngineDead) as failure:
            await self._give_back(running, failure)
        else:
            self._release(item)
            self._finish(running, ending, event)
        finally:
            self._release(item)
            self._on_room()

    async def _answer(self, running: Running) -> tuple[Ending, wire.Event]:
        item = running.item
        head = [item.request_id, item.attempt, -1]
        try:
            await self._stream(running)
        except RequestRejected as error:
            ending = running.ending(Outcome.REJECTED, error.status, str(error.error.get("code") or ""))
            shown = {**error.error, "retry_after_s": error.retry_after_s} if error.retry_after_s else error.error
            event = [*head, "E", Outcome.REJECTED.value, error.status, orjson.dumps(shown), self._told(running)]
        except asyncio.CancelledError:
            if running.abort is None:
                raise
            ending = running.ending(running.abort.outcome, running.abort.status, running.abort.code)
            event = [*head, "E", ending.outcome, ending.status, b"", self._told(running)]
        else:
            ending, usage = running.ending(Outcome.COMPLETED, 200, ""), running.usage
            counts = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
            event = [*head, "D", *counts, self.version, self._told(running)]
        return ending, event

    async def _stream(self, running: Running) -> None:
        if running.stopped:
            raise asyncio.CancelledError
        item, sequence = running.item, 0
        wait_s = self._delays.seconds("prepare", item.tenant, self._worker_id)
        if wait_s:
            await asyncio.sleep(wait_s)
        job = job_of(item, running.times)
        async with aclosing(self._engine.run(job)) as frames:  # type: ignore[type-var]  # engines yield generators
            async for frame in frames:
                self._note_frame(running, frame)
                usage, ids = frame.usage, wire.pack_ids(frame.token_ids)
                self._outbox.frame(
                    item.gateway_id,
                    [
                        *(item.request_id, item.attempt, sequence, "F", frame.data),
                        *(usage.prompt_tokens, usage.completion_tokens, ids),
                        *(() if sequence else (self._told(running),)),
                    ],
                )
                sequence += 1

    def _told(self, running: Running) -> bytes:
        """What the gateway is told of this attempt: with its first frame, for the client may leave, and at its end."""
        return wire.pack_run(running.run(self._worker_id, self.version))

    def _note_frame(self, running: Running, frame: Frame) -> None:
        item, running.usage = running.item, frame.usage
        if running.first_token_ms is None:
            running.first_token_ms = _now_ms()
        if self._governor.made(item.request_id, running.made_tokens) and self.waiting:
            self._on_room()  # its prompt is computed: there is room for another one's
        if item.on_trial and item.trial_tokens is not None and running.made_tokens >= item.trial_tokens:
            self._acquit(item)

    def _finish(self, running: Running, ending: Ending, event: wire.Event) -> None:
        item, usage = running.item, running.usage
        self._outbox.finish(item, ending, self.version, event)
        tenant = metrics.tenant(item.tenant)
        counts = {"prompt": usage.prompt_tokens, "cached": usage.cached_tokens, "completion": running.made_tokens}
        for kind, count in counts.items():
            metrics.tokens.labels(item.model, item.qos_class.value, tenant, kind).inc(count)
        self._note_pace(running)
        self.prefix_hits.add(_now_ms(), usage.prompt_tokens, usage.cached_tokens)

    def _note_pace(self, running: Running) -> None:
        if running.first_token_ms is not None and running.item.stream and running.made_tokens > 1:
            seconds = (_now_ms() - running.first_token_ms) / 1000 / (running.made_tokens - 1)
            metrics.output_token.labels(running.item.model, running.item.qos_class.value).observe(seconds)

    def _release(self, item: ClaimedItem) -> None:
        if self.running.pop(item.request_id, None) is not None:
            self._governor.ended(item.request_id)
            metrics.running.set(len(self.running))

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
            self._on_dead(str(error))
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
        running = self.running.get(item.request_id)
        # The timer of an earlier attempt says nothing about the one that runs now.
        if self._governor.trial != item.request_id or running is None or running.item is not item:
            return
        self._governor.trial = ""
        self._on_room()
        self._acquitting = asyncio.create_task(
            self._ready.acquit(item.request_id, self._worker_id, item.attempt), name="acquit"
        )


def _colour(running: Running, version: str) -> None:
    """Every line that is logged while it runs carries its ids; a new attempt is a new context, linked with the last."""
    item = running.item
    request = Colour(item.request_id, item.traceparent[3:35], item.traceparent[36:52])
    own_id = span_id(item.request_id, ATTEMPT, item.attempt)
    scope = f"{item.tenant}/{item.qos_class.value}"
    current.set(request.changed(own_id, tenant_scope=scope, model_version=version, batch_id=item.batch_id))


async def _wait(runnings: list[Running], timeout_s: float | None) -> None:
    tasks = [running.task for running in runnings if running.task]
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)


def _now_ms() -> int:
    return int(time.time() * 1000)
