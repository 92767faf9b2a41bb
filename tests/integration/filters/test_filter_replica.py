"""What a process's own copy says, and when it says that it does not know."""

import pytest
from redis.asyncio import Redis
from things import KEYS, Things, add, long_before, named, rebuilder, synced

from caching.filters import replica as replicas
from caching.filters.replica import FUTURE_MS, GRACE_MS, STALE_S, STRADDLE_MS, Existence, Replica
from caching.filters.truth import MAX_DELTAS, FilterTruth


class Clocks:
    """This machine's clocks, set by hand."""

    def __init__(self) -> None:
        self.monotonic_s, self.wall_s = 100.0, 0.0


async def ahead(redis: Redis, ms: int) -> None:
    """Let the store's time go on by so much."""
    now_ms = int(await redis.hget("sl:filter:things", "clock"))
    await redis.hset("sl:filter:things", "clock", str(now_ms + ms))


async def test_what_cannot_exist_is_denied_by_its_age(truth: FilterTruth, redis: Redis) -> None:
    await rebuilder(truth, Things([b"old"])).rebuild()
    await ahead(redis, 2 * STRADDLE_MS)
    replica = await synced(truth)
    assert replica.generation is not None
    begun_ms, now_ms = replica.generation.begun_ms, await truth.now_ms()
    said = {
        "long before the generation": replica.look(b"x", 0),
        "just long enough before it": replica.look(b"x", begun_ms - STRADDLE_MS),
        "about when it began": replica.look(b"x", begun_ms - STRADDLE_MS + 1),
        "in its first minutes": replica.look(b"x", begun_ms + STRADDLE_MS - 1),
        "under it": replica.look(b"x", begun_ms + STRADDLE_MS),
        "a while ago": replica.look(b"x", now_ms - GRACE_MS - 100),
        "just now": replica.look(b"x", now_ms - GRACE_MS + 100),
        "soon": replica.look(b"x", now_ms + 1_000),
        "in days": replica.look(b"x", now_ms + 3 * FUTURE_MS),
        "not said": replica.look(b"x", None),
        "there": replica.look(b"old", 0),
    }
    assert said == {
        "long before the generation": Existence.NO,
        "just long enough before it": Existence.NO,
        "about when it began": Existence.UNKNOWN,
        "in its first minutes": Existence.UNKNOWN,
        "under it": Existence.NO,
        "a while ago": Existence.NO,
        "just now": Existence.UNKNOWN,
        "soon": Existence.UNKNOWN,
        "in days": Existence.NO,
        "not said": Existence.UNKNOWN,
        "there": Existence.MAYBE,
    }
    assert replica.looks == {Existence.NO: 5, Existence.UNKNOWN: 5, Existence.MAYBE: 1}


async def test_a_machine_whose_clock_is_days_ahead_takes_nothing_for_far_in_the_future(truth: FilterTruth) -> None:
    await rebuilder(truth, Things()).rebuild()
    clocks = Clocks()
    replica = Replica(truth, wall_s=lambda: clocks.wall_s)
    await replica.sync()
    in_days_ms = await truth.now_ms() + 3 * FUTURE_MS
    assert replica.look(b"x", in_days_ms) == "no"
    clocks.wall_s = in_days_ms / 1000
    assert replica.look(b"x", in_days_ms) == "unknown"


async def test_it_follows_more_deltas_than_one_call_moves(truth: FilterTruth) -> None:
    await rebuilder(truth, Things(), keys=10 * MAX_DELTAS).rebuild()
    replica = await synced(truth)
    items = named(2 * MAX_DELTAS + 10)
    await add(truth, *items)
    await replica.sync()
    assert {replica.look(item, None).value for item in items} == {"maybe"}
    assert (await synced(truth)).looks == dict.fromkeys(Existence, 0)


async def test_a_copy_that_is_not_kept_up_to_date_says_nothing(truth: FilterTruth) -> None:
    clocks = Clocks()
    await rebuilder(truth, Things([b"a"])).rebuild()
    replica = Replica(truth, monotonic_s=lambda: clocks.monotonic_s)
    await replica.sync()
    clocks.monotonic_s += STALE_S
    assert (replica.look(b"a", None), replica.look(b"x", 0)) == ("maybe", "no")
    clocks.monotonic_s += 0.1
    assert (replica.look(b"a", None), replica.look(b"x", 0)) == ("unknown", "unknown")
    assert not replica.ready
    await replica.sync()
    assert (replica.look(b"a", None), replica.look(b"x", 0)) == ("maybe", "no")


async def test_deltas_that_are_missing_are_a_gap_and_a_new_generation_ends_it(truth: FilterTruth, redis: Redis) -> None:
    await rebuilder(truth, Things()).rebuild()
    replica = await synced(truth)
    before = long_before(replica)
    assert replica.look(b"x", before) == "no"
    await add(truth, *named(5))
    assert replica.generation is not None
    await redis.xtrim(f"sl:filter:things:{replica.generation.name}:log", maxlen=3, approximate=False)
    await replica.sync()
    assert (replica.look(b"x", before), replica.wants_rebuild(), replica.gaps) == ("unknown", "lost", 1)
    newcomer = await synced(truth)
    assert (newcomer.look(b"x", before), newcomer.wants_rebuild()) == ("unknown", "lost")
    await replica.sync()  # the broken one is still there, and stays given up
    assert replica.wants_rebuild() == "lost"
    await rebuilder(truth, Things(named(5))).rebuild()
    await replica.sync()
    assert (replica.look(b"x", before), replica.wants_rebuild()) == ("no", "")


async def test_all_deltas_missing_are_a_gap_too(truth: FilterTruth, redis: Redis) -> None:
    await rebuilder(truth, Things()).rebuild()
    replica = await synced(truth)
    await add(truth, b"a")
    assert replica.generation is not None
    await redis.delete(f"sl:filter:things:{replica.generation.name}:log")
    await replica.sync()
    assert replica.look(b"a", 0) == "unknown"


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
async def test_a_damaged_filter_is_not_believed(truth: FilterTruth, redis: Redis, damage: str) -> None:
    await rebuilder(truth, Things(named(100))).rebuild()
    generation = (await truth.poll("", 0)).generation
    assert generation is not None
    key = f"sl:filter:things:{generation.name}:bits"
    packed = await redis.get(key)
    assert isinstance(packed, bytes)
    if damage == "gone":
        await redis.delete(key)
    else:
        await redis.set(key, packed[:-8] if damage == "cut" else packed[:-1] + bytes([packed[-1] ^ 255]))
    replica = await synced(truth)
    assert (replica.look(named(1)[0], 0), replica.wants_rebuild()) == ("unknown", "lost")


async def test_a_flush_is_noticed_and_what_exists_is_never_denied(truth: FilterTruth, redis: Redis) -> None:
    things = Things(named(10))
    await rebuilder(truth, things).rebuild()
    replica = await synced(truth)
    await redis.flushall()
    await replica.sync()
    assert (replica.look(named(1)[0], 0), replica.wants_rebuild()) == ("unknown", "lost")
    await rebuilder(truth, things).rebuild()
    await replica.sync()
    assert (replica.look(named(1)[0], 0), replica.look(b"x", 0)) == ("maybe", "no")


async def test_while_a_new_generation_loads_the_old_one_answers(truth: FilterTruth) -> None:
    await rebuilder(truth, Things([b"a"])).rebuild()
    replica = await synced(truth)
    await rebuilder(truth, Things([b"a", b"b"])).rebuild()
    assert (replica.look(b"a", 0), replica.look(b"x", 0)) == ("maybe", "no")
    await replica.sync()
    assert (replica.look(b"b", 0), replica.gaps) == ("maybe", 0)


async def test_a_generation_that_comes_back_after_it_was_given_up_is_not_believed(
    truth: FilterTruth, redis: Redis
) -> None:
    await rebuilder(truth, Things()).rebuild()
    replica = await synced(truth)
    kept = {key: await redis.dump(key) async for key in redis.scan_iter("sl:filter:things*")}
    await rebuilder(truth, Things([b"a"])).rebuild()
    await replica.sync()
    await redis.flushall()
    for key, dump in kept.items():
        await redis.restore(key, 0, dump)
    await replica.sync()
    assert (replica.look(b"a", 0), replica.wants_rebuild()) == ("unknown", "lost")


async def test_deltas_without_end_ask_for_a_new_generation(truth: FilterTruth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "MAX_LOG", 20)
    await rebuilder(truth, Things()).rebuild()
    replica = await synced(truth)
    await add(truth, *named(20))
    await replica.sync()
    assert replica.wants_rebuild() == ""
    await add(truth, b"a")
    await replica.sync()
    assert replica.wants_rebuild() == "log"


async def test_fill_and_false_positives_follow_the_deltas(truth: FilterTruth) -> None:
    await rebuilder(truth, Things(named(KEYS // 2))).rebuild()
    replica = await synced(truth)
    half = (replica.fill, replica.false_positives)
    await add(truth, *named(KEYS // 2, KEYS))
    await replica.sync()
    assert 0.2 < half[0] < 0.35 < replica.fill < 0.55
    assert half[1] < replica.false_positives < 1e-8
