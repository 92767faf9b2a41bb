"""Whose requests of bulk jobs are under way."""

import asyncio

from gateway.bulk.byte_room import ByteRoom
from gateway.bulk.permits import Permits, limits_in

PLENTY = 1000
FULL = {"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "10", "x-ratelimit-reset-requests": "9s"}


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_are_under_way_than_there_is_room_for() -> None:
    permits = Permits(lambda: 2)
    takes = [asyncio.ensure_future(permits.take(1, PLENTY)) for _ in range(3)]
    await settle()
    assert [take.done() for take in takes] == [True, True, False]
    permits.give(1)
    await settle()
    assert takes[2].done()


async def test_a_tenant_with_few_requests_does_not_wait_behind_all_of_another() -> None:
    permits = Permits(lambda: 4)
    many = [asyncio.ensure_future(permits.take(1, PLENTY)) for _ in range(100)]
    await settle()
    few = [asyncio.ensure_future(permits.take(2, PLENTY)) for _ in range(2)]
    await settle()
    for _ in range(2):
        permits.give(1)
    await settle()
    assert all(take.done() for take in few)
    for take in many:
        take.cancel()


async def test_a_tenants_own_bound_holds_it_alone() -> None:
    permits = Permits(lambda: 10)
    bound = [asyncio.ensure_future(permits.take(1, 2)) for _ in range(3)]
    other = asyncio.ensure_future(permits.take(2, PLENTY))
    await settle()
    assert [take.done() for take in bound] == [True, True, False]
    assert other.done()
    bound[2].cancel()


async def test_a_refusal_makes_the_tenant_wait_and_nobody_else() -> None:
    permits = Permits(lambda: 10)
    now = asyncio.get_running_loop().time()
    permits.refused(1, now, 0.05, "requests_per_minute")
    waits, goes = asyncio.ensure_future(permits.take(1, PLENTY)), asyncio.ensure_future(permits.take(2, PLENTY))
    await settle()
    assert (waits.done(), goes.done()) == (False, True)
    assert permits.waits_for(1) == "requests_per_minute"
    await asyncio.wait_for(waits, 10)  # by itself, when the time has come
    permits.answered(1, {}, 0.0)
    assert permits.waits_for(1) == "requests_per_minute", "what was sent before says nothing"
    permits.answered(1, {}, asyncio.get_running_loop().time())
    assert permits.waits_for(1) == ""


async def test_a_tenant_whose_requests_come_back_rests_and_one_that_paces_itself_does_not() -> None:
    permits = Permits(lambda: 10)
    assert permits.rest_s(1) == 0
    permits.answered(1, FULL, 0)
    assert permits.rest_s(1) == 0
    permits.refused(1, 0, 60, "cost_per_month")
    assert 50 < permits.rest_s(1) <= 60


async def test_an_answer_that_tells_of_little_left_makes_the_tenant_pause() -> None:
    permits = Permits(lambda: 10)
    permits.answered(1, FULL, asyncio.get_running_loop().time())
    waits = asyncio.ensure_future(permits.take(1, PLENTY))
    await settle()
    assert not waits.done()
    waits.cancel()


async def test_who_stops_waiting_takes_nothing_with_him() -> None:
    permits = Permits(lambda: 1)
    await permits.take(1, PLENTY)
    gone, next_one = (asyncio.ensure_future(permits.take(1, PLENTY)) for _ in range(2))
    await settle()
    gone.cancel()
    await settle()
    permits.give(1)
    await settle()
    assert next_one.done()
    assert not next_one.cancelled()


async def test_who_stops_at_the_moment_of_his_turn_gives_it_on() -> None:
    permits = Permits(lambda: 1)
    await permits.take(1, PLENTY)
    gone, next_one = (asyncio.ensure_future(permits.take(1, PLENTY)) for _ in range(2))
    await settle()
    permits.give(1)  # his turn has come, but he has not seen it
    gone.cancel()
    await settle()
    assert next_one.done()


def test_limits_are_read_from_headers() -> None:
    (limit,) = limits_in(FULL)
    assert (limit.cap, limit.left, limit.reset_s) == (100, 10, 9.0)
    assert limits_in({}) == ()


async def test_bytes_are_held_up_to_a_bound_and_in_order() -> None:
    room = ByteRoom(10)
    await room.take(8)
    large, small = asyncio.ensure_future(room.take(5)), asyncio.ensure_future(room.take(1))
    await settle()
    assert (large.done(), small.done()) == (False, False)  # the small one does not overtake
    room.give(8)
    await settle()
    assert (large.done(), small.done()) == (True, True)


async def test_what_is_larger_than_the_bound_is_held_alone() -> None:
    room = ByteRoom(10)
    await room.take(50)
    waits = asyncio.ensure_future(room.take(1))
    await settle()
    assert not waits.done()
    room.give(50)
    await settle()
    assert waits.done()


async def test_bytes_of_who_stops_waiting_are_free() -> None:
    room = ByteRoom(10)
    await room.take(10)
    gone, next_one = asyncio.ensure_future(room.take(10)), asyncio.ensure_future(room.take(3))
    await settle()
    gone.cancel()
    room.give(10)
    await settle()
    assert next_one.done()
