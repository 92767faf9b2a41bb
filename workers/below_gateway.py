"""Tells whoever stores it what happens below the gateway: steps of the engine, and launches of kernels.

Tracing fails open: what cannot be sent is dropped.
"""

import asyncio
from collections.abc import Iterable

import psutil
from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.config import Config
from domain.trace.launches import WINDOW_US, Launches
from domain.trace.step import Step
from tracing import logs
from tracing.kernel import triton_hook
from tracing.kernel.driver_probe import CannotProbe, DriverProbe, library_of
from tracing.store.step_packing import pack_steps
from workers.engines.port import Engine
from workers.state import OwnState

log = logs.get(__name__)

STREAM = "sl:steps"

MAX_MESSAGES = 1_000
"""Messages that wait for whoever stores them; older ones are dropped by the store."""

PERIOD_S = 1.0
ON = "on"


class BelowGateway:
    """One for each worker. Use from the engine's loop only."""

    def __init__(self, config: Config, worker_id: str, engine: Engine, redis: Redis, own: OwnState) -> None:
        self._config, self._worker_id, self._engine = config, worker_id, engine
        self._redis, self._own = redis, own
        self._probe: DriverProbe | None = None

    async def run(self) -> None:
        """Send for ever; begins once the engine has started."""
        await self.begin()
        try:
            while True:
                await asyncio.sleep(PERIOD_S)
                await self.send()
        finally:
            self.end()

    async def begin(self) -> None:
        """Begin with what is asked for, and show in the worker's state what of it is on, or why not."""
        layers = {}
        if self._config.trace_model:
            layers["model"] = self._why_not_inside()
        if self._config.trace_triton:
            layers["triton"] = self._why_not_inside() or triton_hook.why_off()
        if self._config.trace_kernels:
            layers["driver"] = await asyncio.to_thread(self._why_not_driver)
        for layer, reason in layers.items():
            if reason:
                log.warning("layer_not_traced", layer=layer, reason=reason)
        if layers:
            shown = (f"{layer}: {f'off, {reason}' if reason else ON}" for layer, reason in layers.items())
            self._own.note(tracing_below="; ".join(shown))

    async def send(self) -> None:
        """Send what has happened since the last call."""
        steps = self._engine.take_steps()
        if not self._config.engine_steps:
            steps = []
        launches = [*self._engine.take_launches(), *(self._probe.take() if self._probe else ())]
        if not steps and not launches:
            return
        from_us, to_us = _span(steps, launches)
        packed = await asyncio.to_thread(pack_steps, steps, launches)
        fields: dict[str, str | int | bytes] = {"w": self._worker_id, "f": from_us, "t": to_us, "p": packed}
        try:
            await self._redis.xadd(STREAM, fields, maxlen=MAX_MESSAGES, approximate=True)  # type: ignore[arg-type]
        except (RedisError, OSError) as error:
            log.warning("steps_dropped", error=str(error), steps=len(steps))

    def end(self) -> None:
        """Remove what was set."""
        if self._probe:
            self._probe.stop()

    def _why_not_inside(self) -> str:
        return "" if self._config.engine == "vllm" else f"the engine is {self._config.engine}, not vLLM"

    def _why_not_driver(self) -> str:
        me = psutil.Process()
        pids = [me.pid, *(child.pid for child in me.children(recursive=True))]
        try:
            probe = DriverProbe(library_of(pids), pids)
            probe.start()
        except CannotProbe as error:
            return str(error)
        self._probe = probe
        return ""


def _span(steps: Iterable[Step], launches: Iterable[Launches]) -> tuple[int, int]:
    """When the first of them ended, and the last; microseconds since 1970."""
    ends = [step.ended_us for step in steps] + [one.from_us + WINDOW_US for one in launches]
    return min(ends), max(ends)
