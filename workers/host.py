"""Where the engine lives: one event loop on one daemon thread of the worker process."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from domain.config import Config
from tracing import logs
from workers.announcer import Dispatcher
from workers.engines.port import Engine, EngineDead, EngineInfo
from workers.heart import Heart
from workers.ready.ready_set import ReadySet
from workers.runner import BatchReport, Runner
from workers.running import Claiming
from workers.state import FAILED, PROBING, OwnState
from workers.tokenization.publisher import Publisher

log = logs.get(__name__)
T = TypeVar("T")

DRAIN_S = 8.0

_current: "Host | None" = None


def current() -> "Host":
    """The host of this process.

    Raises:
        RuntimeError: this process is not a worker.
    """
    if _current is None:
        raise RuntimeError("this process holds no engine")
    return _current


class Host:
    """Starts the engine, proves it, keeps it under probe, and stops it. Called from other threads."""

    def __init__(self, config: Config, worker_id: str, engine: Engine) -> None:
        self._config, self.worker_id, self._engine = config, worker_id, engine
        self._own = OwnState(config.model_name, config.engine)
        self._own.note(classes=",".join(config.worker_classes), cores=",".join(config.worker_cores))
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-loop", daemon=True)
        self._died = threading.Event()
        self._death = ""

    def start(self) -> EngineInfo:
        """Load the engine, probe it and begin to take work; gateways and operators see each step.

        Raises:
            EngineDead: it did not start or did not compute what it should.
        """
        global _current
        self._thread.start()
        self._runner = self._call(self._make_runner())
        self._heart = Heart(self._config, self.worker_id, self._own, self._runner)
        self._heart.start()
        try:
            info = self._call(self._start_engine())
        except EngineDead as error:
            self._own.to(FAILED, str(error))
            raise
        _current = self
        return info

    def delay_s(self, place: str) -> float:
        """Seconds that a test has this worker wait at a place; see :mod:`workers.delays`."""
        return self._runner.delays.seconds(place, self.worker_id)

    def claim_and_run(self, ticket: Claiming) -> BatchReport:
        """Serve one ticket; blocks until its items have ended."""
        return self._call(self._runner.claim_and_run(ticket))

    def announce_by(self, dispatcher: Dispatcher) -> None:
        """Show batches that come without a ticket through Celery's events."""
        self._runner.announcer.attach(dispatcher)

    def wait_for_death(self, timeout_s: float) -> str:
        """Why the engine died, or "" while it lives."""
        return self._death if self._died.wait(timeout_s) else ""

    def drain(self) -> None:
        """Take no more work and let what runs end."""
        self._call(self._runner.drain(DRAIN_S))

    def stop(self) -> None:
        """Drain, stop the engine and the heart."""
        self.drain()
        self._call(self._engine.stop())
        self._heart.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _make_runner(self) -> Runner:
        self._redis = redis = Redis.from_url(
            self._config.ready_url,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 8),
            socket_timeout=5,
            socket_connect_timeout=2,
            health_check_interval=15,
        )
        return Runner(self._config, self.worker_id, self._engine, ReadySet(redis), self._own)

    async def _start_engine(self) -> EngineInfo:
        self._own.to(self._own.state, "loading the model")
        info = await self._engine.start()
        await self._publish(info)
        room = self._engine.room()
        self._own.to(PROBING, "checking a known answer", **_facts(info), kv_blocks=room.kv_blocks)
        await self._engine.probe()
        await self._runner.serve(info, self._on_dead)
        if self._config.probe_interval_s:
            self._prober = asyncio.create_task(self._keep_probing(), name="probe")
        return info

    async def _publish(self, info: EngineInfo) -> None:
        """Let gateways count by the model's own tokenizer, before they send it anything."""
        if info.tokenization is not None:
            publisher = Publisher(self._redis)
            self._own.note(tokenizer=await publisher.begin(info.tokenization))
            self._publishing = asyncio.create_task(publisher.keep(), name="publish")

    async def _keep_probing(self) -> None:
        while not self._died.is_set():
            await asyncio.sleep(self._config.probe_interval_s)
            await self._runner.probe()

    def _on_dead(self, reason: str) -> None:
        log.error("engine_dead", reason=reason)
        self._death = reason or "the engine died"
        self._died.set()


def _facts(info: EngineInfo) -> dict[str, str | int]:
    return {
        "version": info.version,
        "dtype": info.dtype,
        "max_model_len": info.max_model_len,
        "max_num_seqs": info.max_num_seqs,
        "endpoints": ",".join(info.endpoints),
        "kv_tokens": info.kv_tokens,
    }
