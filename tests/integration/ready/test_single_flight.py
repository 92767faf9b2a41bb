"""Equal requests in flight share one run, over all gateways; whoever ends first, however, the others get theirs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis import Redis as SyncRedis

from domain.limits import KINDS, Level, Limit
from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import seeking, world
from tests.integration.ready.conftest import MakeItem
from tests.integration.ready.seeking import HALF_USED, USED, VERSION
from tests.integration.ready.test_refunds import PRICES
from workers.ready.item import Ending, NewItem, Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Closed, Hit, OverLimit, Repeated

WIDE = tuple(Limit(level, name, 1_000_000_000) for level in Level for name in KINDS)
DONE, LEFT = world.COMPLETED, world.ABORTED


@pytest.fixture
async def equal(ready: ReadySet, item: MakeItem) -> MakeItem:
    """Makes equal requests of two gateways."""
    await ready.gateway_beat("g2", 60_000)

    def make(request_id: str, *, sought: dict[str, Any] | None = None, **changes: Any) -> NewItem:
        return item(request_id, sought=seeking.seeking(**(sought or {})), prices=PRICES, **changes)

    return make


async def admit(ready: ReadySet, item: NewItem) -> str:
    """Admit, and return whose run it shares."""
    verdict = await world.admit(ready, item)
    assert isinstance(verdict, Admitted), verdict
    return verdict.follows


async def admit_three(ready: ReadySet, equal: MakeItem, **of_leader: Any) -> None:
    """A leader of the first gateway, a follower of each."""
    assert await admit(ready, equal("r1", **of_leader)) == ""
    assert await admit(ready, equal("r2")) == "r1"
    assert await admit(ready, equal("r3", gateway_id="g2")) == "r1"


async def run(ready: ReadySet, store: SyncRedis, worker_id: str = "w1") -> list[str]:
    """Let a worker take all that waits."""
    world.beat(store, worker_id, 8)
    return [one.request_id for one in (await world.claim(ready, worker_id, 8)).items]


def state(store: SyncRedis, request_id: str) -> str:
    found = store.hget(f"sl:item:{request_id}", "state")
    return found.decode() if isinstance(found, bytes) else ""


def told(store: SyncRedis, gateway_id: str, kind: bytes) -> list[list[Any]]:
    return [event for event in world.events(store, gateway_id) if event[3] == kind]


def row(store: SyncRedis, request_id: str) -> dict[str, str]:
    [found] = [one for one in world.settlements(store) if one["rid"] == request_id]
    return found


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


# --- the leader is lost -----------------------------------------------------------------------------------------------

Loss = Callable[[ReadySet, SyncRedis], Awaitable[None]]


async def left_while_it_waited(ready: ReadySet, store: SyncRedis) -> None:
    assert await ready.cancel("r1", *LEFT, Usage()) == "closed"


async def left_while_it_ran(ready: ReadySet, store: SyncRedis) -> None:
    await run(ready, store)
    assert await ready.cancel("r1", *LEFT, Usage()) == "aborting"
    assert state(store, "r2") == "following"
    assert await world.finish(ready, "r1", "w1", how=world.ABORTED)


async def failed_on_its_engine(ready: ReadySet, store: SyncRedis) -> None:
    await run(ready, store)
    assert await world.finish(ready, "r1", "w1", how=world.FAILED)


async def waited_too_long(ready: ReadySet, store: SyncRedis) -> None:
    store.zadd("sl:deadlines", {"r1": 1})
    assert world.sweep(store) == [0, 0, 1]


async def could_not_go_on(ready: ReadySet, store: SyncRedis) -> None:
    await run(ready, store)
    assert await ready.lose("r1", "w1", 0, "engine_error")
    assert state(store, "r2") == "following"
    assert await ready.cancel("r1", "failed", 502, "", Usage(10, 0, 3)) == "closed"


async def was_met_too_late_at_a_claim(ready: ReadySet, store: SyncRedis) -> None:
    store.hset("sl:item:r1", "deadline", 1)
    assert await run(ready, store) == []


LOSSES = [
    left_while_it_waited,
    left_while_it_ran,
    failed_on_its_engine,
    waited_too_long,
    could_not_go_on,
    was_met_too_late_at_a_claim,
]


@pytest.mark.parametrize("loss", LOSSES)
async def test_when_the_leader_is_lost_one_follower_leads_the_others(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, loss: Loss
) -> None:
    await admit_three(ready, equal)
    assert await admit(ready, equal("r4", gateway_id="g2")) == "r1"
    await loss(ready, store)
    assert told(store, "g1", b"L") == ([[b"r1", 1, -1, b"L", b"engine_error"]] if loss is could_not_go_on else []) + [
        [b"r2", 1, -1, b"L", b"leader_lost"]
    ]
    assert sorted(event[0] for event in told(store, "g2", b"L")) == [b"r3", b"r4"]
    assert {state(store, name) for name in ("r2", "r3", "r4")} == {"lost"}

    assert await ready.requeue("r3", "g2", 1, "", 0) in ("ring", "ready")
    assert await ready.requeue("r2", "g1", 1, "", 0) == "following"
    assert await ready.requeue("r2", "g1", 1, "", 0) == "following"  # asked twice
    assert await ready.requeue("r4", "g2", 1, "", 0) == "following"
    joined = [event[4:] for event in told(store, "g2", b"J")]
    assert joined == [[b"r2", b"g1", 1], [b"r4", b"g2", 1]]
    assert await run(ready, store, "w2") == ["r3"]
    assert await world.finish(ready, "r3", "w2", attempt=1, used=USED)
    for name in ("r2", "r4"):
        assert await ready.end_following(name, *DONE, USED, VERSION) == "closed"
    assert [row(store, name)["cache"] for name in ("r2", "r3", "r4")] == ["coalesced", "", "coalesced"]
    assert {row(store, name)["cause"] for name in ("r2", "r3", "r4")} == {"leader_lost"}
    assert len(world.settlements(store)) == 4
    assert world.leftovers(store) == []


async def test_losing_leaders_uses_up_no_retry(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await admit(ready, equal("leader0", qos_class=QosClass.P0))
    for n in range(6):
        assert await admit(ready, equal("r", qos_class=QosClass.P0)) == f"leader{n}"
        await ready.cancel(f"leader{n}", *LEFT, Usage())
        assert await admit(ready, equal(f"leader{n + 1}", qos_class=QosClass.P0)) == ""
        assert await ready.requeue("r", "g1", n + 1, "", 0) == "following"
    await ready.cancel("leader6", *LEFT, Usage())
    assert await ready.requeue("r", "g1", 7, "", 0) in ("ring", "ready")
    await run(ready, store)
    assert await ready.lose("r", "w1", 7, "engine_error")
    assert await ready.requeue("r", "g1", 8, "", 0) in ("ring", "ready")  # this is its first own one


async def test_a_follower_whose_client_has_a_part_goes_on_by_itself(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    await left_while_it_ran(ready, store)
    assert await ready.requeue("r2", "g1", 1, "Hello", 2) in ("ring", "ready")
    assert store.get("sl:flight:f") is None
    assert await ready.requeue("r3", "g2", 1, "", 0) in ("ring", "ready")
    assert await admit(ready, equal("r4")) == "r3"
    world.beat(store, "w2", 8)
    claim = await world.claim(ready, "w2", 8)
    assert [(one.request_id, one.delivered_text, one.causes) for one in claim.items] == [
        ("r2", "Hello", ("leader_lost@b-1",)),
        ("r3", "", ("leader_lost@b-1",)),
    ]
    await world.finish(ready, "r2", "w2", attempt=1)
    assert (row(store, "r2")["cache"], row(store, "r2")["prompt"]) == ("", "10")
    assert state(store, "r4") == "following"


async def test_a_follower_that_is_ended_before_it_goes_on_pays_for_what_it_shared(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    store.hset("sl:worker:w1", "version", VERSION)
    await left_while_it_ran(ready, store)
    assert await ready.cancel("r2", *LEFT, Usage(10, 0, 4)) == "closed"
    found = row(store, "r2")
    assert (found["cache"], found["prompt"], found["completion"], found["attempt"]) == ("coalesced", "5", "2", "0")
    assert await ready.end_following("r3", *DONE, USED, VERSION) == "closed"  # it had all of the answer
    assert world.leftovers(store) == []


@pytest.mark.parametrize("running", [True, False])
async def test_a_dead_gateway_takes_only_its_own_with_it(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, running: bool
) -> None:
    await admit_three(ready, equal)
    if running:
        await run(ready, store)
    world.kill(store, "sl:gateway:g1")
    world.sweep(store)
    if running:  # its worker was told
        assert await world.finish(ready, "r1", "w1", how=world.ABORTED)
    assert [event[:2] for event in told(store, "g2", b"L")] == [[b"r3", 1]]
    assert await ready.requeue("r3", "g2", 1, "", 0) in ("ring", "ready")
    assert await run(ready, store, "w2") == ["r3"]
    assert await world.finish(ready, "r3", "w2", attempt=1)
    world.sweep(store)
    assert row(store, "r2")["outcome"] == "gateway_lost"
    assert len(world.settlements(store)) == 3
    assert world.leftovers(store) == []


async def test_a_follower_that_nobody_told_the_end_goes_on_by_itself(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    assert not await ready.unfollow("r3", "g2", 0)  # its leader runs
    await world.finish(ready, "r1", "w1")
    assert not await ready.unfollow("r3", "g1", 0)
    assert await ready.unfollow("r3", "g2", 0)
    assert told(store, "g2", b"L") == [[b"r3", 1, -1, b"L", b"leader_lost"]]
    assert await ready.requeue("r3", "g2", 1, "", 0) in ("ring", "ready")
    assert await run(ready, store) == ["r3"]


async def test_the_death_of_the_leaders_engine_is_no_loss_for_its_followers(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    assert (state(store, "r1"), state(store, "r2")) == ("lost", "following")
    assert await admit(ready, equal("r4")) == "r1"
    assert await ready.requeue("r1", "g1", 1, "", 0) in ("ring", "ready")
    assert await run(ready, store, "w2") == ["r1"]
    assert await world.finish(ready, "r1", "w2", attempt=1)
    assert told(store, "g2", b"L") == []


async def test_who_is_equal_to_what_killed_two_engines_runs_on_no_third(
    ready: ReadySet, equal: MakeItem, store: SyncRedis
) -> None:
    await admit_three(ready, equal)
    for attempt in (0, 1):
        assert await run(ready, store) == ["r1"]
        assert await ready.lose("r1", "w1", attempt, "engine_dead")
        again = await ready.requeue("r1", "g1", attempt + 1, "", 0)
    assert again == "guilty"
    await ready.cancel("r1", "failed", 502, "", Usage())
    assert await ready.requeue("r3", "g2", 1, "", 0) == "guilty"


async def test_who_is_equal_to_a_suspect_is_one(ready: ReadySet, equal: MakeItem, store: SyncRedis) -> None:
    await admit_three(ready, equal)
    await run(ready, store)
    assert await ready.lose("r1", "w1", 0, "engine_dead")
    await ready.cancel("r1", *LEFT, Usage())
    assert await ready.requeue("r2", "g1", 1, "", 0) in ("ring", "ready")
    assert store.zrange("sl:trial:m", 0, -1) == [b"r2"]


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


@pytest.mark.parametrize(("loss", "anew"), [(left_while_it_waited, False), (left_while_it_ran, True)])
async def test_only_who_lost_a_run_may_wait_anew(
    ready: ReadySet, equal: MakeItem, store: SyncRedis, loss: Loss, anew: bool
) -> None:
    await admit_three(ready, equal)
    before = int(store.hget("sl:item:r2", "deadline") or 0)
    store.hset("sl:item:r2", "deadline", before - 30_000)
    await loss(ready, store)
    assert store.zscore("sl:deadlines", "r2") is None
    await ready.requeue("r2", "g1", 1, "", 0)
    deadline = store.zscore("sl:deadlines", "r2")
    assert deadline is not None
    assert deadline >= before if anew else deadline == before - 30_000


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
