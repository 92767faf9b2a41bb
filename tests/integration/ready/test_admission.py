"""Admission: all limits in one step, and nothing taken when something is refused."""

import asyncio

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Closed, OverLimit


async def test_of_fifty_parallel_requests_exactly_the_budget_is_admitted(
    ready: ReadySet, item: MakeItem, valkey_url: str
) -> None:
    second = ReadySet(Redis.from_url(valkey_url))
    items = [item(f"r{n}", limits=world.limits(requests_per_minute=5)) for n in range(50)]
    verdicts = await asyncio.gather(*((ready, second)[n % 2].admit(one) for n, one in enumerate(items)))
    assert sum(isinstance(verdict, Admitted) for verdict in verdicts) == 5
    refused = [verdict for verdict in verdicts if isinstance(verdict, OverLimit)]
    assert {verdict.limit.name for verdict in refused} == {"requests_per_minute"}
    assert all(verdict.retry_ms is not None and 0 < verdict.retry_ms <= 12_000 for verdict in refused)
    await second.redis.aclose()


async def test_a_refused_request_takes_nothing(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    limits = world.limits(requests_per_minute=10, tokens_per_minute=150)
    assert isinstance(await ready.admit(item("r1", limits=limits)), Admitted)
    refused = await ready.admit(item("r2", limits=limits))
    assert isinstance(refused, OverLimit)
    assert refused.limit == limits[1]
    third = await ready.admit(item("r3", prompt_tokens=5, output_tokens=5, limits=limits))
    assert isinstance(third, Admitted)
    assert third.tightest.requests is not None
    assert third.tightest.requests.left == 8
    assert store.scard("sl:slots:t:1") == 2


async def test_a_request_larger_than_the_minute_never_fits(ready: ReadySet, item: MakeItem) -> None:
    refused = await ready.admit(item("r1", limits=world.limits(tokens_per_minute=50)))
    assert isinstance(refused, OverLimit)
    assert refused.retry_ms is None


async def test_slots_are_held_until_the_end(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    assert isinstance(await ready.admit(item("r1", limits=world.limits(max_concurrent=1))), Admitted)
    refused = await ready.admit(item("r2", limits=world.limits(max_concurrent=1)))
    assert isinstance(refused, OverLimit)
    assert refused.limit.name == "max_concurrent"
    await world.claim(ready, "w1", 4)
    await world.finish(ready, "r1", "w1")
    assert isinstance(await ready.admit(item("r3", limits=world.limits(max_concurrent=1))), Admitted)


async def test_unused_tokens_come_back_and_used_ones_do_not(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    await ready.admit(item("r1", limits=world.limits(tokens_per_minute=1000), prompt_tokens=100, output_tokens=800))
    await world.claim(ready, "w1", 4)
    await world.finish(ready, "r1", "w1", used=Usage(30, 0, 70))
    after = await ready.admit(item("r2", limits=world.limits(tokens_per_minute=1000), prompt_tokens=0, output_tokens=0))
    assert isinstance(after, Admitted)
    assert after.tightest.tokens is not None
    assert 900 <= after.tightest.tokens.left <= 1000 - 100 + 20  # a little flows in while the test runs


async def test_a_repeated_admission_admits_once(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    one = item("r1", limits=world.limits(requests_per_minute=5))
    first, again = await ready.admit(one), await ready.admit(one)
    assert isinstance(first, Admitted)
    assert isinstance(again, Admitted)
    for verdict in (first, again):
        assert verdict.tightest.requests is not None
        assert verdict.tightest.requests.left == 4
    assert store.zcard("sl:ready:m:p1") == 1


async def test_a_class_that_is_full_refuses(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for n in range(3):
        await ready.admit(item(f"x{n}", qos_class=QosClass.P0, max_waiting=3))
    refused = await ready.admit(item("r1", qos_class=QosClass.P0, max_waiting=3))
    assert isinstance(refused, Closed)
    assert (refused.reason, refused.most, refused.waiting) == ("queue_full", 3, 3)


async def test_it_rings_only_when_an_engine_has_room_and_no_ticket_is_under_way(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    async def ring(request_id: str) -> bool:
        verdict = await ready.admit(item(request_id))
        assert isinstance(verdict, Admitted)
        return verdict.ring

    assert not await ring("r1")  # no engine
    world.beat(store, "w1", 0)
    assert not await ring("r2")  # no room
    world.beat(store, "w1", 2, first=False)
    assert await ring("r3")
    assert not await ring("r4")  # one ticket is enough
    await world.claim(ready, "w1", 2)
    world.beat(store, "w1", 1, first=False)
    assert await ring("r5")
