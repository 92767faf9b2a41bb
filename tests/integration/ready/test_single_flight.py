"""Equal requests in flight share one run, over all gateways; a follower may end before it."""

import asyncio
from collections import Counter

import pytest
from redis import Redis as SyncRedis

from domain.limits import KINDS, Level, Limit
from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import seeking, world
from tests.integration.ready.conftest import MakeItem
from tests.integration.ready.seeking import HALF_USED, USED, VERSION, admit, admit_three, row, run, state, told
from workers.ready.item import Ending, Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Closed, Hit, OverLimit, Repeated

WIDE = tuple(Limit(level, name, 1_000_000_000) for level in Level for name in KINDS)
DONE, LEFT = world.COMPLETED, world.ABORTED


# --- one run for all --------------------------------------------------------------------------------------------------


async def test_of_fifty_equal_requests_of_two_gateways_one_runs(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    names = [f"r{n}" for n in range(50)]
    items = [equal(name, gateway_id=f"g{n % 2 + 1}", limits=WIDE) for n, name in enumerate(names)]
    await world.admit(ready, items[0])  # it tells the store what was used before
    follows = await asyncio.gather(*(admit(ready, one) for one in items[1:]))
    assert follows == ["r0"] * 49
    assert await run(ready, store) == ["r0"]
    joined = told(store, "g1", b"J")
    assert sorted(event[4].decode() for event in joined) == sorted(names[1:])
    assert all(event[:4] == [b"r0", 0, -1, b"J"] and event[6] == 0 for event in joined)
    assert {event[5] for event in joined} == {b"g1", b"g2"}

    assert await world.finish(ready, "r0", "w1", used=USED)
    assert {state(store, name) for name in names[1:]} == {"following"}
    for name in names[1:]:
        assert await ready.end_following(name, *DONE, USED, VERSION) == "closed"
        assert await ready.end_following(name, *DONE, USED, VERSION) == "gone"
    counts = Counter(
        (one["outcome"], one["cache"], one["prompt"], one["completion"]) for one in world.settlements(store)
    )
    assert counts == {
        ("completed", "", "100", "31"): 1,
        ("completed", "coalesced", str(HALF_USED.prompt_tokens), str(HALF_USED.completion_tokens)): 49,
    }
    assert world.leftovers(store) == []
    assert world.held(store) == {}


async def test_a_follower_is_charged_its_part_by_the_price_of_the_version_that_answered(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    await world.finish(ready, "r1", "w1", used=USED)
    await ready.end_following("r2", *DONE, USED, VERSION)
    found = row(store, "r2")
    assert (found["cost"], found["price"]) == (str((50 - 11) * 10 + 11 * 1 + 16 * 20), "8")
    assert (found["version"], found["attempt"], found["worker"], found["t_claim"]) == (VERSION, "0", "", "")


@pytest.mark.parametrize("flights", [("f", "g"), ("", "")])
async def test_requests_that_are_not_equal_share_nothing(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, flights: tuple[str, str]
) -> None:
    for name, flight in zip(("r1", "r2"), flights, strict=True):
        assert await admit(ready, equal(name, sought={"flight": flight})) == ""
    assert await run(ready, store) == ["r1", "r2"]


async def test_who_follows_holds_what_it_may_use(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    limits = world.limits(max_concurrent=2, tokens_per_minute=1_000)
    assert await admit(ready, equal("r1", limits=limits)) == ""
    assert await admit(ready, equal("r2", limits=limits)) == "r1"
    assert isinstance(await world.admit(ready, equal("r3", limits=limits)), OverLimit)
    level = store.hget("sl:rate:t:1", "t")
    assert level is not None
    assert float(level) < 1_000 - 2 * 99
    assert await ready.cancel("r2", *LEFT, Usage()) == "closed"
    assert await admit(ready, equal("r3", limits=limits)) == "r1"


async def test_a_full_queue_bars_no_follower_but_a_draining_one_does(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    assert await admit(ready, equal("r1", max_waiting=1)) == ""
    assert await admit(ready, equal("r2", max_waiting=1)) == "r1"
    store.hset("sl:switch", "queue:m:p1", "draining")
    assert isinstance(await world.admit(ready, equal("r3", max_waiting=1)), Closed)


async def test_an_admission_sent_twice_follows_once(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await admit_three(ready, equal)
    assert await admit(ready, equal("r2")) == "r1"
    assert await admit(ready, equal("r1")) == ""
    assert [event[4] for event in told(store, "g1", b"J")] == [b"r2", b"r3"]
    assert store.scard("sl:slots:t:1") == 3


async def test_once_its_answer_is_kept_the_next_one_gets_that(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    packed = await seeking.keep(ready)
    verdict = await world.admit(ready, equal("r4"))
    assert isinstance(verdict, Hit)
    assert verdict.answer == packed
    assert (await admit(ready, equal("r2")), state(store, "r2")) == ("r1", "following")  # sent again, admitted long ago


async def test_nobody_waits_behind_who_is_less_urgent(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    assert await admit(ready, equal("slow", qos_class=QosClass.P2)) == ""
    assert await admit(ready, equal("fast", qos_class=QosClass.P0)) == ""
    assert await admit(ready, equal("middle", qos_class=QosClass.P1)) == "fast"
    assert await admit(ready, equal("slow too", qos_class=QosClass.P2)) == "fast"
    await ready.cancel("fast", *LEFT, Usage())
    assert await admit(ready, equal("slow three", qos_class=QosClass.P2)) == ""  # the first one's place was taken
    assert set(await run(ready, store)) == {"slow", "slow three"}
    assert await admit(ready, equal("fast too", qos_class=QosClass.P0)) == "slow three"  # it runs, so nobody waits


async def test_a_run_has_so_many_followers_that_its_end_is_no_stop_for_all(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    follows = Counter([await admit(ready, equal(f"r{n}")) for n in range(300)])
    assert follows == {"": 2, "r0": 256, "r257": 42}
    await ready.cancel("r0", *LEFT, Usage())
    assert store.get("sl:flight:f") == b"r257"  # the end of the older run leaves the newer its place


async def test_a_followers_idempotency_key_is_used_up_by_its_own_end(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    note = Note("1:aaaa", "body-1", ttl_ms=60_000, keep_ms=0)
    await admit_three(ready, equal)
    assert await admit(ready, equal("r4", note=note)) == "r1"
    await run(ready, store)
    await world.finish(ready, "r1", "w1")
    assert await world.admit(ready, equal("r5", note=note)) == Repeated("running", "r4", b"")
    await ready.end_following("r4", *DONE, USED, VERSION)
    assert await world.admit(ready, equal("r5", note=note)) == Repeated("used", "r4", b"")


# --- a follower ends first --------------------------------------------------------------------------------------------


async def test_a_follower_that_leaves_leaves_the_others_alone(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    assert await ready.cancel("r2", *LEFT, Usage(10, 0, 4)) == "closed"
    assert (state(store, "r1"), state(store, "r3")) == ("leased", "following")
    assert store.smembers("sl:followers:r1") == {b"r3"}
    assert row(store, "r2")["outcome"] == "cancelled"
    assert await ready.end_following("r2", *DONE, USED, VERSION) == "gone"


async def test_a_dead_gateways_followers_are_ended(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    world.kill(store, "sl:gateway:g2")
    world.sweep(store)
    assert row(store, "r3")["outcome"] == "gateway_lost"
    assert store.smembers("sl:followers:r1") == {b"r2"}


async def test_who_follows_a_waiting_one_waits_itself_and_may_wait_too_long(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    store.zadd("sl:deadlines", {"r2": 1})
    assert world.sweep(store) == [0, 0, 1]
    assert row(store, "r2")["outcome"] == "expired"
    assert told(store, "g1", b"E") == [[b"r2", 0, -1, b"E", b"expired", 429, b""]]
    assert await ready.cancel("r3", "timeout", 504, "timeout", Usage()) == "expired"
    assert state(store, "r1") == "ready"


async def test_who_follows_a_running_one_waits_no_more(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    store.zadd("sl:deadlines", {"r2": 1})
    assert world.sweep(store) == [0, 0, 0]
    assert state(store, "r2") == "following"
    assert await ready.cancel("r3", "timeout", 504, "timeout", Usage()) == "closed"
    assert row(store, "r3")["outcome"] == "timeout"


# --- the store is lost ------------------------------------------------------------------------------------------------


async def test_after_the_store_was_emptied_equal_requests_start_anew(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    store.flushall()
    await ready.load()
    assert await ready.end_following("r2", *DONE, USED, VERSION) == "gone"
    one = equal("r2")
    ending = Ending(*DONE, USED, None)
    for _ in range(2):
        await ready.settle_forgotten(one, ending, 1_700_000_000_000, 0, VERSION, "coalesced")
    assert (row(store, "r2")["cache"], row(store, "r2")["prompt"]) == ("coalesced", "50")
    assert await admit(ready, equal("r4")) == ""
    assert await admit(ready, equal("r5")) == "r4"


async def test_a_flight_whose_leader_is_gone_holds_nobody_up(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    store.set("sl:flight:f", "nobody")
    assert await admit(ready, equal("r1")) == ""
    assert await admit(ready, equal("r2")) == "r1"
