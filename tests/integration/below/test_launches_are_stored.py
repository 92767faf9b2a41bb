"""Launches at the GPU's driver go from the kernel's probe to the database; a stand-in is the driver."""

import _ctypes
import asyncio
import ctypes
import os
import platform
from pathlib import Path
from typing import cast

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from domain.config import Config
from domain.trace.step import Step
from tests.unit.tracing.tiny_library import CODE, write_library
from tracing.clock import now_us
from tracing.kernel.driver_probe import FUNCTION
from tracing.store.steps import find_launches, find_steps
from workers.below_gateway import BelowGateway
from workers.engines.port import Engine
from workers.engines.simulator import SimulatorEngine
from workers.settlement.steps import StepKeeper
from workers.state import OwnState

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(platform.machine() not in CODE, reason="the stand-in is not written for this machine"),
]

CONFIG = Config(engine="simulator", trace_kernels=True)


def launch(library: ctypes.CDLL, stream: int, times: int) -> None:
    arguments = [ctypes.c_void_p(value) for value in (1, 2, 3, 4, 5, 6, 7, 8, stream, 0, 0)]
    for _ in range(times):
        getattr(library, FUNCTION)(*arguments)


async def work(valkey_url: str, library: ctypes.CDLL) -> str:
    """Launch beside a step, and send both; what the worker's state says of its layers."""
    engine, own = SimulatorEngine(CONFIG), OwnState("m", "simulator")
    redis = AsyncRedis.from_url(valkey_url)
    below = BelowGateway(CONFIG, "w1", cast("Engine", engine), redis, own)
    try:
        await below.begin()
        engine._log.add(Step(now_us(), 1_000))
        launch(library, 0xA0, 30)
        launch(library, 0xB0, 12)
        await below.send()
    finally:
        below.end()
        await redis.aclose()
    return str(own.fields()["tracing_below"])


def test_launches_are_found_beside_the_steps_of_their_worker(store: Redis, valkey_url: str, tmp_path: Path) -> None:
    begin_us = now_us()
    library = ctypes.CDLL(str(write_library(tmp_path / "libcuda.so.1", FUNCTION)))
    try:
        state = asyncio.run(work(valkey_url, library))
    finally:
        _ctypes.dlclose(library._handle)  # type: ignore[attr-defined]  # Linux has it
    if state != "driver: on":
        pytest.skip(f"no probe here: {state}")
    assert StepKeeper(store, CONFIG).step() == 1

    found = find_launches("w1", begin_us, now_us(), limit=100)
    counted = {name: sum(one.count for one in found if one.name == name) for name in {one.name for one in found}}
    assert counted == {"0xa0": 30, "0xb0": 12}
    assert {one.pid for one in found} == {os.getpid()}
    assert len(find_steps("w1", begin_us, now_us(), limit=100)) == 1
