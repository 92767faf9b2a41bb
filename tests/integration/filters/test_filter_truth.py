"""Generations in the store: who makes them, what is in them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from redis.asyncio import Redis
from things import KEYS, Things, add, named, rebuilder, synced

from caching.filters.bloom import LIBRARIES
from caching.filters.existence import Existence
from caching.filters.truth import ADD_WITHIN_MS, CLOCKS_MS, PIECE_BYTES, AnnouncedTooLongAgo, FilterTruth


class Held(Things):
    """Things whose reading waits until it is let go."""

    def __init__(self, items: Sequence[bytes] = ()) -> None:
        super().__init__(items)
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        self.reached.set()
        await self.go.wait()
        yield self.items


async def test_nothing_is_known_before_the_first_generation(truth: FilterTruth) -> None:
    await add(truth, b"a")
    replica = await synced(truth)
    assert replica.wants_rebuild() == "lost"
    assert not replica.ready


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_generation_holds_what_was_read_and_what_was_added_since(truth: FilterTruth, library: str) -> None:
    old, new = named(500), named(50, 500)
    assert await rebuilder(truth, Things(old), library=library).rebuild()
    await add(truth, *new)
    replica = await synced(truth)
    assert {replica.look(item, None).value for item in old + new} == {"maybe"}
    assert {replica.look(item, None).value for item in named(50, 1_000)} == {"unknown"}
    generation = replica.generation
    assert generation is not None
    assert (generation.items, generation.seq, generation.library) == (500, 50, library)


async def test_what_is_added_while_everything_is_read_is_in_both_generations(truth: FilterTruth) -> None:
    await rebuilder(truth, Things()).rebuild()
    held = Held()
    rebuilding = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    replica = await synced(truth)
    await add(truth, b"a")
    await replica.sync()
    before = replica.generation
    held.go.set()
    assert await rebuilding
    await replica.sync()
    assert before is not None
    assert replica.generation is not None
    assert (before.seq, replica.generation.seq) == (1, 1)
    assert before.name != replica.generation.name
    assert replica.look(b"a", None) == "maybe"


async def test_one_rebuilds_at_a_time(truth: FilterTruth) -> None:
    held, late = Held(), Things()
    first = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    assert not await rebuilder(truth, late).rebuild()
    assert late.readings == 0
    held.go.set()
    assert await first
    assert await rebuilder(truth, late).rebuild()


async def test_a_rebuilder_that_fails_makes_room_at_once(truth: FilterTruth) -> None:
    class Broken(Things):
        async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
            yield [b"a"]
            raise LookupError

    with pytest.raises(LookupError):
        await rebuilder(truth, Broken()).rebuild()
    assert await rebuilder(truth, Things()).rebuild()


async def test_a_rebuilder_that_lost_its_turn_changes_nothing(truth: FilterTruth, redis: Redis) -> None:
    held = Held([b"of-the-first"])
    first = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    await redis.delete("sl:filter:things:lease")  # as if it had run out
    assert await rebuilder(truth, Things([b"of-the-second"])).rebuild()
    held.go.set()
    assert not await first
    replica = await synced(truth)
    assert replica.look(b"of-the-second", None) == "maybe"
    assert replica.look(b"of-the-first", None) == "unknown"


async def test_a_turn_that_ran_out_in_the_middle_is_not_completed_by_a_flush(truth: FilterTruth, redis: Redis) -> None:
    held = Held([b"a"])
    first = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    await redis.flushall()
    held.go.set()
    assert not await first
    assert (await truth.poll("", 0)).generation is None


async def test_what_is_gone_leaves_the_truth_with_the_next_generation(truth: FilterTruth, redis: Redis) -> None:
    things = Things(named(20))
    await rebuilder(truth, things).rebuild()
    await add(truth, b"erased")
    await truth.ask_rebuild()
    replica = await synced(truth)
    assert replica.wants_rebuild() == "asked"
    await rebuilder(truth, things).rebuild()
    await replica.sync()
    assert replica.wants_rebuild() == ""
    assert replica.look(b"erased", None) == "unknown"
    digest = truth.digest(b"erased")
    async for key in redis.scan_iter("*"):
        assert digest not in (await redis.dump(key) or b"")
    assert len([key async for key in redis.scan_iter("sl:filter:things:*:log")]) == 0


async def test_a_rebuild_that_had_begun_does_not_answer_a_later_wish(truth: FilterTruth) -> None:
    held = Held()
    await truth.ask_rebuild()
    rebuilding = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    await truth.ask_rebuild()
    held.go.set()
    await rebuilding
    assert (await truth.poll("", 0)).asked == 1


async def test_an_item_that_was_announced_too_long_ago_is_refused_and_left_out(truth: FilterTruth) -> None:
    await rebuilder(truth, Things()).rebuild()
    now_ms = await truth.now_ms()
    for made_at_ms in (now_ms - ADD_WITHIN_MS - 1, now_ms + 60_000, 0):
        with pytest.raises(AnnouncedTooLongAgo):
            await truth.add(b"a", made_at_ms)
    assert (await synced(truth)).look(b"a", None) == "unknown"
    assert await truth.add(b"a", now_ms) >= now_ms


async def test_the_time_never_goes_back(truth: FilterTruth, redis: Redis) -> None:
    ahead_ms = await truth.now_ms() + 60_000
    await redis.hset("sl:filter:things", "clock", str(ahead_ms))
    assert [await truth.now_ms(), await add(truth, b"a"), (await truth.poll("", 0)).now_ms] == [ahead_ms] * 3


async def test_a_filter_grows_with_what_exists(truth: FilterTruth) -> None:
    await rebuilder(truth, Things(named(10))).rebuild()
    small = await synced(truth)
    await add(truth, *named(KEYS * 11 // 10))
    await small.sync()
    assert small.wants_rebuild() == "full"
    await rebuilder(truth, Things(named(KEYS * 11 // 10))).rebuild()
    large = await synced(truth)
    assert large.wants_rebuild() == ""
    assert small.generation is not None
    assert large.generation is not None
    assert large.generation.size.bits > 1.9 * small.generation.size.bits


async def test_no_call_moves_more_than_a_bounded_piece(truth: FilterTruth, redis: Redis) -> None:
    await rebuilder(truth, Things(named(50_000), chunk=5_000), keys=100_000).rebuild()
    replica = await synced(truth)
    assert replica.generation is not None
    assert replica.generation.packed_bytes > 3 * PIECE_BYTES
    assert len(await truth.piece(replica.generation.name, 0)) == PIECE_BYTES
    assert {replica.look(item, None).value for item in named(50_000)} == {"maybe"}


# --- what is too young for copies -------------------------------------------------------------------------------------


async def later(redis: Redis, truth: FilterTruth, ms: int) -> None:
    await redis.hset("sl:filter:things", "clock", str(await truth.now_ms() + ms))


async def test_of_what_was_announced_since_its_generation_the_store_knows_everything(
    truth: FilterTruth, redis: Redis
) -> None:
    await rebuilder(truth, Things()).rebuild()
    await later(redis, truth, CLOCKS_MS + 1)
    made_at_ms = await add(truth, b"a")
    assert await truth.was_added(b"a", made_at_ms) is Existence.MAYBE
    assert await truth.was_added(b"b", made_at_ms) is Existence.NO


async def test_of_all_else_it_says_nothing(truth: FilterTruth, redis: Redis) -> None:
    assert await truth.was_added(b"a", await truth.now_ms()) is Existence.UNKNOWN  # there is no generation
    await rebuilder(truth, Things()).rebuild()
    made_at_ms = await add(truth, b"a")
    for before_ms in (0, CLOCKS_MS, 10**9):
        assert await truth.was_added(b"b", made_at_ms - before_ms) is Existence.UNKNOWN
    await later(redis, truth, CLOCKS_MS + 1)
    now_ms = await truth.now_ms()
    assert await truth.was_added(b"b", now_ms + CLOCKS_MS) is Existence.UNKNOWN
    assert await truth.was_added(b"b", now_ms + 2 * CLOCKS_MS) is Existence.NO


async def test_a_list_that_is_not_complete_says_nothing(truth: FilterTruth, redis: Redis) -> None:
    await rebuilder(truth, Things()).rebuild()
    await later(redis, truth, CLOCKS_MS + 1)
    made_at_ms = await add(truth, b"a", b"b")
    [added] = await redis.keys("sl:filter:things:*:added")
    await redis.srem(added, truth.digest(b"a"))
    assert await truth.was_added(b"a", made_at_ms) is Existence.UNKNOWN
    await redis.delete(added)
    assert await truth.was_added(b"a", made_at_ms) is Existence.UNKNOWN


async def test_what_is_added_while_everything_is_read_is_listed_with_the_next_generation_too(
    truth: FilterTruth, redis: Redis
) -> None:
    held = Held()
    rebuilding = asyncio.create_task(rebuilder(truth, held).rebuild())
    await held.reached.wait()
    await later(redis, truth, CLOCKS_MS + 1)
    made_at_ms = await add(truth, b"a")
    held.go.set()
    assert await rebuilding
    assert await truth.was_added(b"a", made_at_ms) is Existence.MAYBE
    await rebuilder(truth, Things([b"a"])).rebuild()
    assert len(await redis.keys("sl:filter:things:*:added")) == 0
