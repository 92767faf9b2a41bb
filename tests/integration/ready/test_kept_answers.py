"""Answers that the store keeps for all gateways: given at admission, counted and settled once, bounded in bytes."""

import asyncio
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.limits import KINDS, Level, Limit, Span
from domain.usage import Usage
from tests.integration.ready import seeking, world
from tests.integration.ready.conftest import ITEM, MakeItem
from tests.integration.ready.seeking import HALF_USED, KEY, USED, VERSION, keep, kept
from workers.ready import ready_set
from workers.ready.cache_figures import CacheFigures
from workers.ready.item import NewItem, Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Closed, Hit, OverLimit, Repeated, Verdict

WIDE = tuple(Limit(level, name, 1_000_000_000) for level in Level for name in KINDS)
HALF_COST = (50 - 11) * 10 + 11 * 1 + 16 * 20
ENTRY_BYTES = 900  # that an answer of a few bytes counts as, about


async def ask(ready: ReadySet, item: NewItem) -> Verdict:
    return await world.admit(ready, item)


# --- what a hit is ----------------------------------------------------------------------------------------------------


async def test_a_kept_answer_is_given_counted_and_settled_in_the_same_moment(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    packed = await keep(ready)
    verdict = await ask(ready, equal("r1", limits=WIDE))
    assert isinstance(verdict, Hit)
    assert (verdict.answer, verdict.month_tokens, verdict.month_cost_nano) == (packed, 50 + 16, HALF_COST)
    assert verdict.tightest.requests is not None
    assert verdict.tightest.requests.left == 1_000_000_000 - 1
    [row] = world.settlements(store)
    told = (
        "rid",
        "outcome",
        "status",
        "cache",
        "prompt",
        "cached",
        "completion",
        "cost",
        "price",
        "version",
        "attempt",
    )
    assert [row[name] for name in told] == [
        *("r1", "completed", "200", "hit", "50", "11", "16", str(HALF_COST), "8", VERSION, "0")
    ]
    assert row["t_admit"] == row["t_end"]
    assert world.leftovers(store) == []
    assert store.keys("sl:idle:*") == store.keys("sl:tokens:*") == []  # the fair order knows nothing of it


@pytest.mark.parametrize("level", Level)
async def test_a_hit_counts_once_in_every_sum_however_often_it_is_told(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, level: Level
) -> None:
    packed = await keep(ready)
    for _ in range(3):
        verdict = await ask(ready, equal("r1", limits=WIDE))
        assert isinstance(verdict, Hit)
        assert verdict.answer == packed
        assert verdict.month_tokens == 66
    owner = 1 if level is Level.TENANT else 2
    for span in (Span.DAY, Span.MONTH):
        spent = world.spent(store, level, owner, span)
        assert [spent[name] for name in ("r", "i", "o", "c")] == [1, 50, 16, HALF_COST]
    drawn = store.hmget(f"sl:rate:{level.value}:{owner}", "r", "i", "o", "t")
    assert [1_000_000_000 - round(float(one or 0)) for one in drawn] == [1, 50, 16, 66]
    assert world.held(store) == {}
    assert len(world.settlements(store)) == 1
    names: Any = store.keys("sl:made:*")
    made: Any = store.hgetall(names[0])
    assert {name.decode(): int(value) for name, value in made.items() if name != b"since"} == {
        "m|requests": 1, "m|prompt_tokens": 50, "m|cached_tokens": 11, "m|completion_tokens": 16,
    }  # fmt: skip


@pytest.mark.parametrize(("percent", "counts"), [(0, Usage(0, 0, 0)), (1, Usage(1, 1, 1)), (100, USED)])
async def test_the_plan_says_what_part_of_it_counts(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, percent: int, counts: Usage
) -> None:
    await keep(ready)
    assert isinstance(await ask(ready, equal("r1", sought={"price_percent": percent})), Hit)
    [row] = world.settlements(store)
    assert Usage(*(int(row[name]) for name in ("prompt", "cached", "completion"))) == counts


async def test_an_answer_that_the_gateway_has_itself_is_counted_just_so(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    held = {"held": USED, "held_version": VERSION}
    verdict = await ask(ready, equal("r1", sought=held))
    assert isinstance(verdict, Hit)
    assert verdict.answer == b""
    [row] = world.settlements(store)
    assert (row["cache"], row["prompt"], row["cost"]) == ("hit", str(HALF_USED.prompt_tokens), str(HALF_COST))
    assert (await ready.cache_figures()).more_entries == 0
    await keep(ready)
    await ask(ready, equal("r2", sought=held))
    assert (await ready.cache_figures()).more_entries == 1  # the other gateways want it too


@pytest.mark.parametrize(
    "sought", [{"reads": False}, {"max_age_ms": 59_000}, {"key": "cd" * 16}], ids=["no-cache", "too old", "another"]
)
async def test_what_will_not_do_is_computed(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, sought: dict[str, Any]
) -> None:
    await keep(ready, age_ms=60_000)
    assert isinstance(await ask(ready, equal("r1", sought=sought)), Admitted)
    assert store.zcard("sl:ready:m:p1") == 1
    assert isinstance(await ask(ready, equal("r2")), Hit)


async def test_an_old_answer_is_given_no_more_and_leaves_nothing(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await keep(ready, ttl_ms=1)
    await keep(ready, "cd" * 16, ttl_ms=1)
    await asyncio.sleep(0.005)
    assert isinstance(await ask(ready, equal("r1")), Admitted)
    assert kept(store) == {"cd" * 16}
    world.sweep(store)
    assert kept(store) == set()
    assert seeking.check_indexes(store) == 0
    assert await ready.cache_figures() == CacheFigures(0, 0, 0, evicted=0, expired=2)


# --- what may refuse it -----------------------------------------------------------------------------------------------

REFUSING = {
    "requests_per_minute": 1,
    "input_tokens_per_minute": 99,
    "output_tokens_per_minute": 31,
    "tokens_per_minute": 131,
    "requests_per_day": 1,
    "input_tokens_per_day": 99,
    "output_tokens_per_day": 31,
    "tokens_per_month": 131,
    "cost_per_month": HALF_COST,
}


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", REFUSING)
async def test_a_hit_is_no_way_around_a_limit(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, name: str, level: Level
) -> None:
    await keep(ready)
    limits = (Limit(level, name, REFUSING[name]),)
    assert isinstance(await ask(ready, equal("r1", limits=limits)), Hit)
    verdict = await ask(ready, equal("r2", limits=limits))
    assert isinstance(verdict, OverLimit)
    assert verdict.limit == limits[0]
    assert len(world.settlements(store)) == 1


async def test_even_a_free_answer_is_refused_to_who_is_in_debt(ready: ReadySet, equal: MakeItem) -> None:
    await keep(ready)
    free = {"price_percent": 0, "flight": ""}
    limits = world.limits(tokens_per_minute=100)
    await ready.redis.hset("sl:rate:t:1", mapping={"at": 2**52, "t": -5})
    assert isinstance(await ask(ready, equal("r2", sought=free, limits=limits)), OverLimit)
    await ready.redis.hset("sl:rate:t:1", "t", "0")
    assert isinstance(await ask(ready, equal("r3", sought=free, limits=limits)), Hit)


async def test_a_hit_needs_no_slot_and_no_place_in_a_queue(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await keep(ready)
    store.hset("sl:switch", "queue:m:p1", "draining")
    limits = world.limits(max_concurrent=1)
    store.sadd("sl:slots:t:1", "another", "and another")
    assert isinstance(await ask(ready, equal("r1", limits=limits, max_waiting=0)), Hit)
    assert isinstance(await ask(ready, equal("r2", max_waiting=0, sought={"reads": False})), Closed)


async def test_an_idempotency_key_is_used_up_by_a_hit(ready: ReadySet, equal: MakeItem) -> None:
    await keep(ready)
    note = Note("1:aaaa", "body-1", ttl_ms=60_000, keep_ms=30_000)
    assert isinstance(await ask(ready, equal("r1", note=note)), Hit)
    assert isinstance(await ask(ready, equal("r1", note=note)), Hit)  # sent again by the gateway
    assert await ask(ready, equal("r2", note=note)) == Repeated("running", "r1", b"")
    await ready.keep_answer("r1", b"as given", 30_000)
    assert await ask(ready, equal("r3", note=note)) == Repeated("done", "r1", b"as given")


# --- what is kept -----------------------------------------------------------------------------------------------------


async def test_a_flood_of_answers_that_nobody_wants_again_pushes_out_none_that_is_wanted(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    room = {"max_bytes": 20 * ENTRY_BYTES}
    await keep(ready, KEY, tenant_id=2, **room)
    await keep(ready, "quiet", tenant_id=2, **room)
    assert isinstance(await ask(ready, equal("r1")), Hit)
    for n in range(200):
        await keep(ready, f"flood{n}", tenant_id=1, **room)
    assert {KEY, "quiet"} <= kept(store)  # wanted twice; and once, by who takes less than the flood
    figures = await ready.cache_figures()
    assert figures.more_entries == 1
    assert figures.evicted == 202 - figures.once_entries - 1
    assert isinstance(await ask(ready, equal("r2", sought={"key": "quiet"})), Hit)


async def test_a_flood_that_is_asked_for_twice_leaves_others_their_share(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    room = {"max_bytes": 20 * ENTRY_BYTES}
    await keep(ready, KEY, tenant_id=2, **room)
    assert isinstance(await ask(ready, equal("r1")), Hit)
    for n in range(100):
        await keep(ready, f"flood{n}", tenant_id=1, **room)
        assert isinstance(await ask(ready, equal(f"f{n}", sought={"key": f"flood{n}"})), Hit)
    assert KEY in kept(store)
    assert seeking.check_indexes(store) <= room["max_bytes"]


async def test_what_was_wanted_once_upon_a_time_gives_way_to_what_is_wanted_now(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    room = {"max_bytes": 10 * ENTRY_BYTES}
    for age in ("old", "new"):
        for n in range(10):
            await keep(ready, f"{age}{n}", **room)
            await ask(ready, equal(f"{age}{n}", sought={"key": f"{age}{n}"}))
    assert "new9" in kept(store)
    assert not {"old0", "old1", "old2", "old3", "old4"} & kept(store)


async def test_the_least_recently_used_goes_first(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    room = {"max_bytes": 10 * ENTRY_BYTES}
    for n in range(6):
        await keep(ready, f"a{n}", **room)
        await ask(ready, equal(f"r{n}", sought={"key": f"a{n}"}))
        await asyncio.sleep(0.002)  # the store tells milliseconds apart
    await ask(ready, equal("again", sought={"key": "a0"}))
    for n in range(12):
        await keep(ready, f"b{n}", **room)
    assert "a0" in kept(store)


async def test_a_newer_answer_takes_the_place_of_the_older(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await keep(ready)
    await ask(ready, equal("r1"))
    packed = await keep(ready, size=500)
    verdict = await ask(ready, equal("r2"))
    assert isinstance(verdict, Hit)
    assert verdict.answer == packed
    figures = await ready.cache_figures()
    assert (figures.bytes, figures.once_entries, figures.more_entries) == (seeking.check_indexes(store), 0, 1)


async def test_an_answer_larger_than_all_room_pushes_out_nothing(ready: ReadySet, store: SyncRedis) -> None:
    await keep(ready, max_bytes=5_000)
    await keep(ready, "huge", size=6_000, max_bytes=5_000)
    assert kept(store) == {KEY}


async def test_an_answer_can_be_dropped(ready: ReadySet, store: SyncRedis) -> None:
    await keep(ready)
    await ready.drop_answer(KEY)
    await ready.drop_answer(KEY)
    assert seeking.check_indexes(store) == 0
    assert kept(store) == set()


async def test_a_tenants_answers_can_be_erased_in_steps(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_set, "ERASED_AT_ONCE", 7)
    for n in range(30):
        await keep(ready, f"a{n}", tenant_id=1)
    await keep(ready, KEY, tenant_id=2)
    for n in range(10):
        assert isinstance(await ask(ready, equal(f"r{n}", sought={"key": f"a{n}"})), Hit)
    assert await ready.erase_answers(1) == 30
    assert await ready.erase_answers(1) == 0
    assert kept(store) == {KEY}
    seeking.check_indexes(store)


async def test_what_is_no_packed_answer_is_not_kept(ready: ReadySet, store: SyncRedis) -> None:
    with pytest.raises(ValueError, match="no packed answer"):
        await ready.store_answer(KEY, b"?", 1, 1_000, 1_000_000)
    assert kept(store) == set()


KEYS = st.integers(0, 30).map(lambda number: f"key{number}")
STEPS = st.one_of(
    st.tuples(st.just("store"), KEYS, st.integers(1, 3), st.integers(1, 4_000), st.integers(3_000, 30_000)),
    st.tuples(st.just("hit"), KEYS),
    st.tuples(st.just("drop"), KEYS),
    st.tuples(st.just("erase"), st.integers(1, 3)),
    st.tuples(st.just("expire"), KEYS),
)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_kept_answers_never_take_more_than_they_may(valkey_url: str, steps: list[tuple[Any, ...]]) -> None:
    with SyncRedis.from_url(valkey_url) as store:
        store.flushall()
        asyncio.run(_walk(valkey_url, store, steps))


async def _walk(url: str, store: SyncRedis, steps: list[tuple[Any, ...]]) -> None:
    ready, size, most = ReadySet(Redis.from_url(url)), 0, 0
    for number, (what, *rest) in enumerate(steps):
        if what == "store":
            key, tenant_id, length, most = rest
            await ready.store_answer(key, seeking.answer(length), tenant_id, 60_000, most)
        elif what == "hit":
            sought = seeking.seeking(key=rest[0], flight="")
            await world.admit(ready, dataclasses.replace(ITEM, request_id=f"r{number}", sought=sought))
        elif what == "drop":
            await ready.drop_answer(rest[0])
        elif what == "erase":
            await ready.erase_answers(rest[0])
        elif store.exists(f"sl:answer:{rest[0]}"):
            store.hset(f"sl:answer:{rest[0]}", "until", 1)
            store.zadd("sl:answers:due", {rest[0]: 1})
        before, size = size, seeking.check_indexes(store)
        assert size <= (most if what == "store" else before)
        assert (await ready.cache_figures()).bytes == size
    await ready.redis.aclose()
