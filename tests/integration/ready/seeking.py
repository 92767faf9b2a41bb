"""Helpers of the tests about kept and shared answers: what requests seek, and answers to keep."""

import dataclasses
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from redis import Redis as SyncRedis

from caching.entry import Entry
from domain.price import PriceRow
from domain.usage import Usage
from tests.integration.ready import world
from workers.ready.item import NewItem, Sought
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted

KEY = "ab" * 16
VERSION = "1.0.0-x"
USED = Usage(100, 21, 31)
HALF_USED = Usage(50, 11, 16)
"""What counts of ``USED`` at half the price: rounded up."""

PRICES = (
    PriceRow(8, "1.0", "", datetime(2026, 1, 1, tzinfo=UTC), 10, 1, 20),
    PriceRow(7, "", "", datetime(2026, 1, 1, tzinfo=UTC), 500, 500, 500),
)
"""The worker's version is ``VERSION``, so the first one is the price."""

SOUGHT = Sought(KEY, "f", reads=True, max_age_ms=3_600_000, price_percent=50)


def seeking(**changes: Any) -> Sought:
    """What a request seeks, at half the price."""
    return dataclasses.replace(SOUGHT, **changes)


def answer(size: int = 10, used: Usage = USED, age_ms: int = 0) -> bytes:
    """An answer of ``size`` bytes, packed."""
    return Entry(b"x" * size, VERSION, 1, int(time.time() * 1000) - age_ms, used).pack()


async def keep(
    ready: ReadySet,
    key: str = KEY,
    *,
    tenant_id: int = 1,
    ttl_ms: int = 3_600_000,
    max_bytes: int = 1_000_000,
    **of_answer: Any,
) -> bytes:
    """Keep an answer, and return it."""
    packed = answer(**of_answer)
    await ready.store_answer(key, packed, tenant_id, ttl_ms, max_bytes)
    return packed


def kept(store: SyncRedis) -> set[str]:
    """Keys of all answers that are kept."""
    names: Any = store.keys("sl:answer:*")
    return {name.decode().removeprefix("sl:answer:") for name in names}


def check_indexes(store: SyncRedis) -> int:
    """What the store counts and lists is exactly what it keeps; returns how many bytes that counts as."""
    count, size = {"once": 0, "more": 0}, {"once": 0, "more": 0}
    of_tenants: dict[str, int] = {}
    for key in kept(store):
        tenant, segment, size_b, until = (
            part.decode() for part in store.hmget(f"sl:answer:{key}", "t", "s", "b", "until")
        )
        assert store.zscore(f"sl:answers:{segment}:{tenant}", key) is not None
        assert store.zscore("sl:answers:due", key) == float(until)
        count[segment] += 1
        size[segment] += int(size_b)
        of_tenants[f"{segment}:{tenant}"] = of_tenants.get(f"{segment}:{tenant}", 0) + int(size_b)
    assert store.zcard("sl:answers:due") == sum(count.values())
    names: Any = [name.decode() for name in store.keys("sl:answers:*:*")]
    assert sum(store.zcard(name) for name in names) == sum(count.values())
    for segment in count:
        told = [int(value or 0) for value in store.hmget("sl:answers", segment, f"{segment}_bytes")]
        assert told == [count[segment], size[segment]]
        found: Any = store.zrange(f"sl:answers:{segment}", 0, -1, withscores=True)
        assert {f"{segment}:{tenant.decode()}": int(score) for tenant, score in found} == {
            name: value for name, value in of_tenants.items() if name.startswith(f"{segment}:")
        }
    return sum(size.values())


async def admit(ready: ReadySet, item: NewItem) -> str:
    """Admit, and return whose run it shares."""
    verdict = await world.admit(ready, item)
    assert isinstance(verdict, Admitted), verdict
    return verdict.follows


async def admit_three(ready: ReadySet, equal: Callable[..., NewItem], **of_leader: Any) -> None:
    """A leader of the first gateway, a follower of each."""
    assert await admit(ready, equal("r1", **of_leader)) == ""
    assert await admit(ready, equal("r2")) == "r1"
    assert await admit(ready, equal("r3", gateway_id="g2")) == "r1"


async def run(ready: ReadySet, store: SyncRedis, worker_id: str = "w1") -> list[str]:
    """Let a worker take all that waits."""
    world.beat(store, worker_id, 8)
    return [one.request_id for one in (await world.claim(ready, worker_id, 8)).items]


def state(store: SyncRedis, request_id: str) -> str:
    """Of a request; "" once it has ended."""
    found = store.hget(f"sl:item:{request_id}", "state")
    return found.decode() if isinstance(found, bytes) else ""


def told(store: SyncRedis, gateway_id: str, kind: bytes) -> list[list[Any]]:
    """Events of one kind that a gateway was told."""
    return [event for event in world.events(store, gateway_id) if event[3] == kind]


def row(store: SyncRedis, request_id: str) -> dict[str, str]:
    """The one settlement of a request."""
    [found] = [one for one in world.settlements(store) if one["rid"] == request_id]
    return found
