"""What is told of limits is what admission counts: read beside the scripts that count."""

from datetime import UTC, datetime

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.limits import KINDS, Level, Limit
from domain.price import PriceRow
from domain.usage import Usage
from tenants.live_limits import read_limits, read_limits_async
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import OverLimit

CAP = 100_000
LIMITS = tuple(Limit(level, name, CAP) for level in Level for name in KINDS)
PRICES = (PriceRow(7, "", "", datetime(2026, 1, 1, tzinfo=UTC), 3, 1, 5),)
TENANT_ID, KEY_ID = 1, 2


def told(store: SyncRedis, level: Level) -> dict[str, tuple[int, int, int]]:
    """Of each limit what is used, held and left."""
    seen = read_limits(store, TENANT_ID, LIMITS, KEY_ID)
    assert all(state.known for state in seen)
    return {state.name: (state.used, state.held, state.remaining) for state in seen if state.level is level}


async def test_what_is_set_aside_is_held_and_what_was_used_is_spent_at_both_levels(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    store.set("sl:born", 1)
    await world.admit(ready, item("r1", limits=LIMITS, prices=PRICES))

    for level in Level:
        held = told(store, level)
        assert held["max_concurrent"] == (1, 0, CAP - 1)
        assert held["requests_per_day"] == (0, 1, CAP - 1)
        assert held["input_tokens_per_day"] == (0, 50, CAP - 50)
        assert held["tokens_per_month"] == (0, 100, CAP - 100)
        assert held["cost_per_month"] == (0, 400, CAP - 400)
        # A minute's bucket of this size has refilled by the time it is read.
        assert held["tokens_per_minute"][0] <= 100

    world.beat(store, "w1", 8)
    await world.claim(ready, "w1", 8)
    await world.finish(ready, "r1", "w1", used=Usage(40, 30, 7))

    for level in Level:
        spent = told(store, level)
        assert spent["max_concurrent"] == (0, 0, CAP)
        assert spent["requests_per_day"] == (1, 0, CAP - 1)
        assert spent["tokens_per_month"] == (47, 0, CAP - 47)
        assert spent["cost_per_month"] == (95, 0, CAP - 95)


async def test_what_is_left_is_what_a_refusal_says(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    limits = (Limit(Level.TENANT, "tokens_per_month", 260), Limit(Level.KEY, "tokens_per_minute", 150))
    await world.admit(ready, item("r1", limits=limits))
    refused = await world.admit(ready, item("r2", limits=limits))
    month, minute = read_limits(store, TENANT_ID, limits, KEY_ID)

    assert isinstance(refused, OverLimit)
    assert refused.limit == limits[1]
    assert refused.left is not None
    assert refused.left <= minute.remaining < 100
    assert month.remaining == 160


async def test_reading_changes_nothing_and_both_ways_say_the_same(
    ready: ReadySet, item: MakeItem, store: SyncRedis, redis: Redis
) -> None:
    fixed = tuple(limit for limit in LIMITS if not limit.name.endswith("per_minute"))
    await world.admit(ready, item("r1", limits=fixed))
    before = {key: store.dump(key) for key in store.keys("sl:*")}

    assert await read_limits_async(redis, TENANT_ID, fixed, KEY_ID) == read_limits(store, TENANT_ID, fixed, KEY_ID)
    assert {key: store.dump(key) for key in store.keys("sl:*")} == before
    assert {state.level for state in read_limits(store, TENANT_ID, fixed)} == {Level.TENANT}
