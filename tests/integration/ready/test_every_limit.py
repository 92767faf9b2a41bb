"""Every kind of limit at both levels: whom it holds, what a refusal says, and that a refusal takes nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis as SyncRedis

from domain.limits import KINDS, Level, Limit, Span
from domain.price import PriceRow
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, OverLimit, Verdict

PRICES = (PriceRow(7, "", "", datetime(2026, 1, 1, tzinfo=UTC), 1, 1, 2),)
# An item takes 50 tokens and 50 tokens at most, which cost 150: each cap has room for one and not for two.
ROOM_FOR_ONE = {
    "max_concurrent": (1, 0),
    "requests_per_minute": (1, 0),
    "input_tokens_per_minute": (60, 10),
    "output_tokens_per_minute": (60, 10),
    "tokens_per_minute": (150, 50),
    "requests_per_day": (1, 0),
    "input_tokens_per_day": (60, 10),
    "output_tokens_per_day": (60, 10),
    "tokens_per_month": (150, 50),
    "cost_per_month": (200, 50),
}
LONGEST_MS = {Span.AT_ONCE: 1_000, Span.MINUTE: 60_000, Span.DAY: 86_400_000, Span.MONTH: 31 * 86_400_000}


def everything(store: SyncRedis) -> dict[str, Any]:
    """All that is counted and held."""
    keys: Any = store.keys("sl:*")
    found = {}
    for key in keys:
        read = {b"hash": store.hgetall, b"set": store.smembers}.get(store.type(key))
        if read is not None and not key.startswith(b"sl:exhausted:"):  # who was refused may be noted
            found[key.decode()] = read(key)
    return found


def admitted(verdict: Verdict) -> bool:
    return isinstance(verdict, Admitted)


def test_every_kind_is_tried() -> None:
    assert list(ROOM_FOR_ONE) == list(KINDS)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", KINDS)
async def test_a_limit_holds_its_tenant_or_its_key_and_nobody_else(
    ready: ReadySet, item: MakeItem, store: SyncRedis, name: str, level: Level
) -> None:
    cap, left = ROOM_FOR_ONE[name]
    limits = (Limit(level, name, cap),)

    async def admit(request_id: str, **changes: Any) -> Verdict:
        return await world.admit(ready, item(request_id, limits=limits, prices=PRICES, **changes))

    assert admitted(await admit("r1"))
    before = everything(store)
    refused = await admit("r2")
    assert isinstance(refused, OverLimit)
    assert (refused.limit, refused.left) == (limits[0], left)
    assert refused.retry_ms is not None
    assert 0 < refused.retry_ms <= LONGEST_MS[KINDS[name].span]
    assert everything(store) == before

    assert admitted(await admit("r3", key_id=3)) == (level is Level.KEY)
    assert admitted(await admit("r4", tenant="other", tenant_id=9, key_id=4))


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", [name for name in KINDS if "requests" not in name and name != "max_concurrent"])
async def test_who_needs_more_than_a_limit_can_give_is_told_never(
    ready: ReadySet, item: MakeItem, name: str, level: Level
) -> None:
    refused = await world.admit(ready, item("r1", limits=(Limit(level, name, 49),), prices=PRICES))
    assert isinstance(refused, OverLimit)
    assert (refused.retry_ms, refused.left) == (None, 49)


async def test_of_several_limits_the_one_that_bars_longest_is_named(ready: ReadySet, item: MakeItem) -> None:
    limits = world.limits(Level.TENANT, requests_per_minute=1, requests_per_day=1) + world.limits(
        Level.KEY, tokens_per_month=150
    )
    assert admitted(await world.admit(ready, item("r1", limits=limits)))
    refused = await world.admit(ready, item("r2", limits=limits, prompt_tokens=100))
    assert isinstance(refused, OverLimit)
    assert refused.limit.name == "requests_per_day"  # what the month holds back may come back with the first one's end
    never = await world.admit(ready, item("r3", limits=limits, prompt_tokens=101))
    assert isinstance(never, OverLimit)
    assert never.limit.name == "tokens_per_month"


async def test_what_is_only_held_may_come_back_at_any_moment_and_what_is_spent_not_before_the_next_month(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 4)
    limits = world.limits(tokens_per_month=150)
    await world.admit(ready, item("r1", limits=limits))
    waiting = await world.admit(ready, item("r2", limits=limits))
    assert isinstance(waiting, OverLimit)
    assert waiting.retry_ms == 1_000
    await world.claim(ready, "w1", 4)
    await world.finish(ready, "r1", "w1", used=Usage(50, 0, 50))
    spent = await world.admit(ready, item("r3", limits=limits))
    assert isinstance(spent, OverLimit)
    assert spent.retry_ms is not None
    seconds, _ = store.time()
    now = datetime.fromtimestamp(seconds, UTC)
    ends = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    assert abs(spent.retry_ms - (ends - now).total_seconds() * 1000) <= 2_000


async def test_headers_tell_of_the_limits_that_leave_least(ready: ReadySet, item: MakeItem) -> None:
    limits = world.limits(
        Level.TENANT, requests_per_minute=100, tokens_per_minute=10_000, requests_per_day=50, tokens_per_month=5_000
    ) + world.limits(Level.KEY, requests_per_day=60, output_tokens_per_day=4_000)
    verdict = await world.admit(ready, item("r1", limits=limits))
    assert isinstance(verdict, Admitted)
    requests, tokens = verdict.tightest.requests, verdict.tightest.tokens
    assert requests is not None
    assert tokens is not None
    assert (requests.limit, requests.left) == (Limit(Level.TENANT, "requests_per_day", 50), 49)
    assert (tokens.limit, tokens.left) == (Limit(Level.KEY, "output_tokens_per_day", 4_000), 3_950)
    assert 0 < requests.reset_ms <= 86_400_000


async def test_a_bucket_refills_evenly_and_never_beyond_its_size(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    limits = world.limits(tokens_per_minute=600)

    async def left_after(seconds: float, need: int) -> int:
        store.hincrbyfloat("sl:rate:t:1", "at", -seconds * 1000)  # as if it had been drawn from so long ago
        verdict = await world.admit(
            ready, item(f"r{store.dbsize()}-{seconds}", limits=limits, prompt_tokens=need, output_tokens=0)
        )
        assert isinstance(verdict, Admitted)
        assert verdict.tightest.tokens is not None
        return verdict.tightest.tokens.left

    assert await left_after(0, 600) == 0
    assert 10 <= await left_after(1, 0) <= 20  # 10 tokens flow in each second; the test itself takes a moment
    assert 310 <= await left_after(30, 0) <= 330
    assert await left_after(3600, 0) == 600


async def test_a_bucket_that_was_overdrawn_is_in_debt(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    limits = world.limits(output_tokens_per_minute=100)
    await world.admit(ready, item("r1", limits=limits))
    await world.claim(ready, "w1", 4)
    await world.finish(ready, "r1", "w1", used=Usage(50, 0, 400))
    refused = await world.admit(ready, item("r2", limits=limits))
    assert isinstance(refused, OverLimit)
    assert refused.left == 0
    assert refused.retry_ms is not None
    assert 200_000 <= refused.retry_ms <= 210_000  # 50 + 300 at 100 a minute
    assert store.pttl("sl:rate:t:1") > 3_600_000


async def test_a_month_above_what_a_float_holds_is_counted_to_the_billionth(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 4)
    limits = world.limits(cost_per_month=10**18)
    used = 2**53  # about nine million of the currency's unit
    seeded = {"d": world.NOTHING, "m": (0, 0, 0, used, 0)}
    verdict = await ready.admit(item("r0", limits=limits, prices=PRICES))
    for gap in verdict.gaps:  # type: ignore[union-attr]
        await world.fill(ready, 1, gap, seeded[gap.period[0]])
    for number in range(3):
        assert admitted(await ready.admit(item(f"r{number}", limits=limits, prices=PRICES)))
        await world.claim(ready, "w1", 4)
        await world.finish(ready, f"r{number}", "w1", used=Usage(1, 0, 0))
    month = world.spent(store, Level.TENANT, 1, Span.MONTH)
    assert (month["c"], month["hc"]) == (used + 3, 0)
