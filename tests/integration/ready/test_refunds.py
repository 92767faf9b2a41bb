"""However a request ends: what it did not use comes back, at both levels, and what it used is spent once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from redis import Redis as SyncRedis

from domain.limits import KINDS, Level, Limit, Span
from domain.price import PriceRow
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.item import Ending, NewItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted

CAP = 1_000_000
LIMITS = tuple(Limit(level, name, CAP) for level in Level for name in KINDS)
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
# The worker's version is 1.0.0-x: the first of these that it begins with is the price.
PRICES = (
    PriceRow(9, "1.1", "", SINCE, 900, 900, 900),
    PriceRow(8, "1.0", "", SINCE, 10, 1, 20),
    PriceRow(7, "", "", SINCE, 500, 500, 500),
)


async def completed(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    await world.finish(ready, "r1", "w1", used=Usage(40, 30, 7))
    assert not await world.finish(ready, "r1", "w1", used=Usage(40, 30, 7))
    return Usage(40, 30, 7)


async def used_more_than_was_held(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    await world.finish(ready, "r1", "w1", used=Usage(90, 0, 70))
    return Usage(90, 0, 70)


async def left_while_it_waited(ready: ReadySet, store: SyncRedis) -> Usage:
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "closed"
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "gone"
    return Usage()


async def left_while_it_ran(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "aborting"
    await world.finish(ready, "r1", "w1", used=Usage(50, 0, 3))
    return Usage(50, 0, 3)


async def waited_too_long(ready: ReadySet, store: SyncRedis) -> Usage:
    store.zadd("sl:deadlines", {"r1": 1})
    assert world.sweep(store) == [0, 0, 1]
    return Usage()


async def lost_its_gateway(ready: ReadySet, store: SyncRedis) -> Usage:
    world.kill(store, "sl:gateway:g1")
    assert world.sweep(store) == [0, 1, 0]
    return Usage()


async def lost_its_gateway_and_its_worker(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    world.kill(store, "sl:gateway:g1")
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    return Usage()


async def failed_after_part_of_its_answer(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    assert await ready.lose("r1", "w1", 0, "engine_error")
    assert await ready.cancel("r1", "failed", 502, "engine_failed", Usage(50, 0, 4)) == "closed"
    return Usage(50, 0, 4)


async def ran_on_elsewhere(ready: ReadySet, store: SyncRedis) -> Usage:
    await world.claim(ready, "w1", 8)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    await ready.requeue("r1", "g1", 1, "Hello", 2)
    world.beat(store, "w2", 8)
    await world.claim(ready, "w2", 8)
    assert not await world.finish(ready, "r1", "w1", used=Usage(50, 0, 50))  # the dead one wakes up
    await world.finish(ready, "r1", "w2", attempt=1, used=Usage(50, 0, 9))
    return Usage(50, 0, 9)


ENDINGS = [
    completed,
    used_more_than_was_held,
    left_while_it_waited,
    left_while_it_ran,
    waited_too_long,
    lost_its_gateway,
    lost_its_gateway_and_its_worker,
    failed_after_part_of_its_answer,
    ran_on_elsewhere,
]
End = Callable[[ReadySet, SyncRedis], Awaitable[Usage]]


async def admit_one(ready: ReadySet, store: SyncRedis, one: NewItem) -> None:
    world.beat(store, "w1", 8)
    store.hset("sl:worker:w1", "version", "1.0.0-x")
    assert isinstance(await world.admit(ready, one), Admitted)


@pytest.mark.parametrize("end", ENDINGS)
async def test_what_was_not_used_comes_back_and_what_was_used_is_spent(
    ready: ReadySet, item: MakeItem, store: SyncRedis, end: End
) -> None:
    await admit_one(ready, store, item("r1", limits=LIMITS, prices=PRICES))
    assert len(world.held(store)) == 4 * 4
    used = await end(ready, store)
    assert world.held(store) == {}
    assert store.keys("sl:slots:*") == []
    cost = 10 * (used.prompt_tokens - used.cached_tokens) + used.cached_tokens + 20 * used.completion_tokens
    for level, owner_id in ((Level.TENANT, 1), (Level.KEY, 2)):
        for span in (Span.DAY, Span.MONTH):
            found = world.spent(store, level, owner_id, span)
            assert [found.get(name, 0) for name in "rioc"] == [1, used.prompt_tokens, used.completion_tokens, cost]
        levels = {
            name.decode(): float(value) for name, value in store.hgetall(f"sl:rate:{level.value}:{owner_id}").items()
        }
        assert levels["r"] == CAP - 1
        assert levels["i"] == CAP - used.prompt_tokens
        assert levels["o"] == CAP - used.completion_tokens
        assert levels["t"] == CAP - used.prompt_tokens - used.completion_tokens
    (row,) = world.settlements(store)
    assert (int(row["cost"]), row["price"]) == (cost, "8" if cost else row["price"])


async def test_a_request_that_the_store_forgot_is_spent_in_the_period_of_its_admission(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    one = item("r1", limits=LIMITS, prices=PRICES)
    ending = Ending("failed", 503, "engine_failed", Usage(7, 0, 3), None)
    await admit_one(ready, store, one)
    store.flushall()
    await admit_one(ready, store, item("r2", limits=LIMITS, prices=PRICES))
    seconds, _ = store.time()
    for _ in range(2):  # its reply may be lost, so it is told again
        await ready.settle_forgotten(one, ending, seconds * 1000, 0, "1.0.0-x")
    assert [(row["version"], row["cost"], row["price"]) for row in world.settlements(store)] == [
        ("1.0.0-x", "130", "8")
    ]
    day = world.spent(store, Level.TENANT, 1, Span.DAY)
    assert (day["r"], day["i"], day["o"]) == (1, 7, 3)
    assert (day["hr"], day["hi"], day["ho"]) == (1, 50, 50)  # of the one that runs
    assert len(world.settlements(store)) == 1
    await ready.settle_forgotten(item("r3", limits=LIMITS), ending, seconds * 1000 - 40 * 86_400_000, 0)
    assert world.spent(store, Level.TENANT, 1, Span.DAY)["r"] == 1


async def test_a_request_that_ended_in_order_is_not_settled_as_forgotten(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    one = item("r1", limits=LIMITS, prices=PRICES)
    await admit_one(ready, store, one)
    await completed(ready, store)
    ending = Ending("cancelled", 499, "client_closed", Usage(50, 0, 2), None)
    await ready.settle_forgotten(one, ending, 1_700_000_000_000, 0)
    assert [row["outcome"] for row in world.settlements(store)] == ["completed"]
    assert world.spent(store, Level.TENANT, 1, Span.MONTH)["r"] == 1


async def test_a_request_that_ended_before_its_admission_was_answered_is_not_admitted_again(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    one = item("r1", limits=LIMITS, prices=PRICES)
    await admit_one(ready, store, one)
    await completed(ready, store)
    assert isinstance(await ready.admit(one), Admitted)
    assert world.held(store) == {}
    assert world.leftovers(store) == []


async def test_a_request_is_spent_in_the_day_and_month_in_which_it_was_admitted(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await admit_one(ready, store, item("r1", limits=LIMITS, prices=PRICES))
    for key in store.keys("sl:spent:*"):  # midnight: what was today is past
        store.rename(key, key.replace(b":d2", b":d1").replace(b":m2", b":m1"))
    day, month = store.hmget("sl:item:r1", "day", "month")
    store.hset("sl:item:r1", mapping={"day": day.replace(b"d2", b"d1"), "month": month.replace(b"m2", b"m1")})
    store.set("sl:born", 1)
    (limit,) = world.limits(requests_per_day=1)
    assert isinstance(await ready.admit(item("r2", limits=(limit,))), Admitted)  # the new day has all of it
    await world.claim(ready, "w1", 8)
    await world.finish(ready, "r1", "w1", used=Usage(40, 0, 7))
    for level, owner_id in ((Level.TENANT, 1), (Level.KEY, 2)):
        for old in store.keys(f"sl:spent:{level.value}:{owner_id}:?1*"):
            assert store.hmget(old, "r", "i", "o", "hr", "hi", "ho") == [b"1", b"40", b"7", b"0", b"0", b"0"]
    today = {key: store.hget(key, "r") for key in store.keys("sl:spent:*:?2*")}
    assert set(today.values()) == {None}


async def test_a_key_that_gets_a_limit_while_it_is_in_use_counts_what_ends_from_then_on(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await admit_one(ready, store, item("r1"))
    limits = world.limits(Level.KEY, requests_per_day=5)
    assert isinstance(await world.admit(ready, item("r2", limits=limits)), Admitted)
    await world.claim(ready, "w1", 8)
    for request_id in ("r1", "r2"):
        await world.finish(ready, request_id, "w1")
    found = world.spent(store, Level.KEY, 2, Span.DAY)
    assert (found["r"], found["hr"]) == (2, 0)


async def test_counts_that_were_deleted_hold_only_what_was_admitted_after_that(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await admit_one(ready, store, item("r1", limits=LIMITS, prices=PRICES))
    store.delete(*store.keys("sl:spent:*"), *store.keys("sl:rate:*"))
    await asyncio.sleep(0.002)  # the store tells milliseconds apart
    assert isinstance(await world.admit(ready, item("r2", limits=LIMITS, prices=PRICES)), Admitted)
    before = world.held(store)
    assert len(before) == 4 * 4
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "closed"
    assert world.held(store) == before
    assert await ready.cancel("r2", "cancelled", 499, "client_closed", Usage()) == "closed"
    assert world.held(store) == {}
