"""What one gateway process keeps: its way to the ready sets, the open relays, and what it knows of the workers."""

import asyncio
import secrets
import time
from contextlib import suppress
from functools import cache, partial
from typing import cast

from django.conf import settings
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from domain.config import Config
from domain.outcome import Outcome
from domain.qos import QosClass
from domain.usage import Usage
from gateway.audience import Audience
from gateway.audit import Audit
from gateway.bulk.desk import Desk
from gateway.cache_tuning import CacheTuning
from gateway.database import Database
from gateway.erased import Erased
from gateway.files.files import Files
from gateway.filters import Filters
from gateway.hot_keys import HotKeys
from gateway.kept_answers import KeptAnswers
from gateway.post import Post
from gateway.prompts.prompts import Prompts
from gateway.records import Records
from gateway.relay import Relay
from gateway.ring import Ringer
from gateway.seeding import Seeder
from gateway.stale import Stale
from gateway.tasks import end_all
from gateway.tickets import Tickets
from gateway.tokens import TokenCounts
from tenants.snapshot import SnapshotKeeper
from tracing import logs, metrics, spans
from workers import wire
from workers.delays import Delays
from workers.erasure import erase_kept, tell_forgotten
from workers.ready.ready_set import ReadySet
from workers.ready.stream import read_stream
from workers.state import WorkerState, decode_worker

log = logs.get(__name__)

READ_BLOCK_MS = 1000
READ_COUNT = 500
RETRY_S = 0.1
WATCH_S = 0.3
CACHE_METRICS_S = 5.0
# A model whose last engine left a moment ago is expected back: requests wait for it instead of being refused.
BACKEND_GRACE_S = 15.0
# A store that was killed is there again within a second or two, with all that waited in it.
STORE_GRACE_S = 5.0
# Connections of the store that whoever looks at limits may use at once; the others are for requests to models.
MAX_READING = 8


class Runtime:
    """Made once a process, started and stopped with the server."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.gateway_id = f"{config.gateway_id or 'gateway'}-{secrets.token_hex(4)}"
        self.snapshot = SnapshotKeeper(config.snapshot_poll_ms)
        self.relays: dict[str, Relay] = {}
        self.workers: list[WorkerState] = []
        self.store_error = "not connected yet"
        self._store_lost_at: float | None = None
        self.stopping = False
        self.database = Database()
        self.files = Files(config)
        self.reading = asyncio.Semaphore(MAX_READING)
        self.tokens = TokenCounts()
        self.records = Records(config)
        self.delays = Delays(config)
        self.hot_keys = HotKeys(config, self.gateway_id, self.database)
        self.stale = Stale(config, self.snapshot)
        self.answers = KeptAnswers(config, self.stale)
        self.hot_keys.tell(self.answers.local.pin)
        self.cache_tuning = CacheTuning(config, self.gateway_id, self.answers.local, self._cache_facts)
        self.ringer = Ringer(self.gateway_id)
        self.tickets = Tickets(config, self._ring)
        self._last_ready: dict[str, float] = {}
        self._last_version: dict[str, str] = {}
        self._cache_told_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[object]] = set()
        self.bulk = Desk(self.background)

    async def start(self) -> None:
        """Load the keys and begin to listen. Redis may come later: ``store_error`` says so until then."""
        self._redis = _connect(self.config, attempts=6)
        self._reader = _connect(self.config, attempts=0)
        self.ready = ReadySet(self._redis)
        self.seeder = Seeder(self.ready)
        self.answers.start(self.ready)
        self.post = Post(self.ready.send_events)
        self.filters = Filters(self._redis, self.database, self.config)
        self.prompts = Prompts(self, self.filters, self._redis)
        await self.snapshot.start()
        await self.stale.start()
        spans.configure(self.config.otlp_endpoint, "sluice-gateway")
        self.ringer.start()
        await self._beat_once()
        await self._watch_once()  # connections that waited for this process find the engines known
        self.filters.start()
        self.hot_keys.start(self._redis)
        audit = Audit(self.ready, self.gateway_id, self.relays)
        # Once more when no request that was under way at the time can run any longer.
        filters = self.filters.for_clients
        forget = (self.stale.erase, self.prompts.forget_tenant, self.answers.forget_tenant, filters.forget)
        tell = partial(tell_forgotten, self._redis, self.gateway_id)
        erased = Erased(
            self.snapshot, self.config.request_timeout_s + 10, (*forget, partial(erase_kept, self._redis)), tell
        )
        loops = [self._beat(), self._read(), self._watch(), audit.run(), erased.run(), self.records.run(self._redis)]
        if self.config.response_cache:
            loops.append(self.cache_tuning.run(self._redis))
        self._tasks = [asyncio.create_task(work) for work in loops]

    async def stop(self) -> None:
        """End what is still open and leave the list of the living."""
        self.stopping = True
        for relay in self.relays.values():
            relay.leave()
        if self._background:
            await asyncio.wait(self._background, timeout=2)
        await end_all(self._tasks)
        await self.records.flush(self._redis)
        await self.filters.stop()
        await self.hot_keys.stop()
        self.ringer.stop()
        self.tokens.stop()
        self.seeder.stop()
        self.database.close()
        self.files.close()
        self.prompts.close()
        self.bulk.close()
        await self.stale.stop()
        await self.snapshot.stop()
        try:
            await self._redis.delete(f"sl:gateway:{self.gateway_id}")
        except (RedisError, OSError):
            log.info("stopped_without_redis")
        spans.close()
        await self._redis.aclose()
        await self._reader.aclose()

    def find_model(self, name: str) -> str | None:
        """The served model behind a name that a client used; None if there is none."""
        if name == self.config.model_name or name in self.config.model_aliases:
            return self.config.model_name
        return name if name in self.models() else None

    def models(self) -> list[str]:
        """The models that are served, the configured one first."""
        served = {worker.model: None for worker in self.workers if worker.model}
        return list({self.config.model_name: None, **served})

    def has_backend(self, model: str) -> bool:
        """True while an engine serves the model, or did a moment ago."""
        return time.monotonic() - self._last_ready.get(model, float("-inf")) < BACKEND_GRACE_S

    def store_is_away(self) -> bool:
        """True when the store has not answered for longer than it takes to start it anew."""
        return self._store_lost_at is not None and time.monotonic() - self._store_lost_at > STORE_GRACE_S

    def _lose_store(self, error: Exception) -> None:
        self.store_error = str(error) or type(error).__name__
        if self._store_lost_at is None:
            self._store_lost_at = time.monotonic()

    def only_version_of(self, model: str) -> str:
        """The version that every engine of the model has, or had when there was one; "" while there are several."""
        versions = {worker.version for worker in self.workers if worker.model == model and worker.version}
        if len(versions) == 1:
            self._last_version[model] = next(iter(versions))
        return "" if len(versions) > 1 else self._last_version.get(model, "")

    def version_of(self, model: str) -> str:
        """The model version that answers at present; "" if no engine serves the model."""
        return next((worker.version for worker in self.workers if worker.model == model and worker.version), "")

    def _cache_facts(self) -> dict[str, object]:
        return {"filter_fill": round(self.filters.replica.fill, 4)}

    def _ring(self, model: str, qos_class: QosClass) -> None:
        wait_s = self.delays.seconds("window")
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self.ringer.ring, model, qos_class)
        else:
            self.ringer.ring(model, qos_class)

    def background(self, work: "asyncio.Task[object]") -> None:
        """Keep a task until it ends; it is never cancelled in the middle of a call to Redis."""
        self._background.add(work)
        work.add_done_callback(self._background.discard)

    # --- loops ------------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.config.heartbeat_ms / 1000)
            await self._beat_once()

    async def _beat_once(self) -> None:
        try:
            await self.ready.gateway_beat(self.gateway_id, self.config.lease_ttl_ms)
            self.store_error, self._store_lost_at = "", None
            for queue, facts in self.tickets.changed():
                await self._redis.hset(f"sl:windows:{queue}", items=[part for pair in facts.items() for part in pair])
        except (RedisError, OSError) as error:
            self._lose_store(error)
            log.warning("beat_failed", error=self.store_error)

    async def _read(self) -> None:
        stream, last = f"sl:out:{self.gateway_id}", b"0"
        trimmed_at = time.monotonic()
        while True:
            try:
                for entry_id, fields in await read_stream(self._reader, stream, last, READ_BLOCK_MS, READ_COUNT):
                    last = entry_id
                    self._dispatch(wire.unpack(fields[b"m"]))
                if time.monotonic() - trimmed_at > 1 and last != b"0":
                    trimmed_at = time.monotonic()
                    # To the last entry, so that no word of an answer stays when nothing more comes.
                    await self._reader.xtrim(stream, minid=_next_id(last), approximate=False)
            except (RedisError, OSError) as error:
                log.warning("read_retry", error=str(error))
                await asyncio.sleep(RETRY_S)

    def _dispatch(self, events: list[wire.Event]) -> None:
        for event in events:
            request_id = event[0].decode()
            relay = self.relays.get(request_id)
            if relay is not None and event[3] == wire.JOINED:
                self._join(relay, event)
            elif relay is not None:
                relay.accept(event)
            elif event[3] == wire.LOST:
                self.background(asyncio.create_task(self._end_abandoned(request_id)))

    def _join(self, leader: Relay, event: wire.Event) -> None:
        """An equal request shares the run of ``leader``; if that has ended, the store has told it so."""
        if leader.end is None:
            if leader.audience is None:
                leader.audience = Audience(leader, self.gateway_id, self.relays, self.post)
            leader.audience.join(event)

    async def _end_abandoned(self, request_id: str) -> None:
        """Its client left before its engine was lost: nobody is to run it again."""
        await self.ready.cancel(request_id, Outcome.CANCELLED.value, 499, "client_closed", Usage())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            await self._watch_once()

    async def _watch_once(self) -> None:
        try:
            workers = await self._read_workers()
            # Before its engines are known a model's tokenizer is: also its first request is counted exactly.
            await self.tokens.follow(self._redis, workers)
            self.workers = workers
            await self.delays.follow(self._redis)
        except (RedisError, OSError) as error:
            self._lose_store(error)
        now = time.monotonic()
        self._last_ready.update({worker.model: now for worker in self.workers if worker.ready})
        metrics.in_flight.set(len(self.relays))
        await self._tell_cache_metrics(now)

    async def _tell_cache_metrics(self, now: float) -> None:
        if now - self._cache_told_at > CACHE_METRICS_S:
            self._cache_told_at = now
            with suppress(RedisError, OSError):
                await self.answers.tell_metrics()

    async def _read_workers(self) -> list[WorkerState]:
        ids = sorted(cast("set[bytes]", await self._redis.smembers("sl:workers")))
        pipeline = self._redis.pipeline(transaction=False)
        for worker_id in ids:
            pipeline.hgetall(b"sl:worker:" + worker_id)
        hashes = await pipeline.execute() if ids else []
        return [decode_worker(worker_id.decode(), raw) for worker_id, raw in zip(ids, hashes, strict=True) if raw]


def _next_id(entry_id: bytes) -> str:
    milliseconds, _, number = entry_id.decode().partition("-")
    return f"{milliseconds}-{int(number) + 1}"


def _connect(config: Config, attempts: int) -> Redis:
    return Redis.from_url(
        config.ready_url,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), attempts),
        socket_timeout=5,
        socket_connect_timeout=2,
        health_check_interval=15,
    )


@cache
def runtime() -> Runtime:
    """The runtime of this process."""
    return Runtime(settings.SLUICE)
