"""Equal requests share one run: when it ends without an answer, one of those that wait for it leads the others."""

from collections.abc import Awaitable, Callable

import pytest
from redis import Redis as SyncRedis

from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from tests.integration.ready.seeking import USED, VERSION, admit, admit_three, row, run, state, told
from workers.ready.ready_set import ReadySet

DONE, LEFT = world.COMPLETED, world.ABORTED

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
    lost = [event[:5] for event in told(store, "g1", b"L")]
    assert lost == ([[b"r1", 1, -1, b"L", b"engine_error"]] if loss is could_not_go_on else []) + [
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
