"""An item that kills engines is found out, and costs its neighbours nothing."""

from redis import Redis as SyncRedis

from domain.qos import QosClass
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.item import ClaimedItem
from workers.ready.ready_set import ReadySet


async def run(ready: ReadySet, store: SyncRedis, worker_id: str, **options: bool) -> tuple[ClaimedItem, ...]:
    world.beat(store, worker_id, 8)
    return (await world.claim(ready, worker_id, 8, **options)).items


async def die(ready: ReadySet, worker_id: str, items: tuple[ClaimedItem, ...], made: int = 0) -> dict[str, str]:
    """The engine dies under these items; returns what their gateway is told when it puts them back."""
    blamed = next((one.request_id for one in items if one.on_trial), "")
    for one in items:
        forgive = blamed not in ("", one.request_id)
        await ready.lose(one.request_id, worker_id, one.attempt, "engine_dead", forgive=forgive)
    return {
        one.request_id: await ready.requeue(one.request_id, "g1", one.attempt + 1, "x" * made, made) for one in items
    }


async def test_suspects_run_one_at_a_time_beside_others(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for name in ("a", "b", "c"):
        await ready.admit(item(name))
    await die(ready, "w1", await run(ready, store, "w1"))
    await ready.admit(item("fresh"))
    again = await run(ready, store, "w2")
    assert [one.on_trial for one in again] == [True, False]
    assert again[1].request_id == "fresh"
    assert again[0].causes == ("engine_dead@b-1",)
    assert await run(ready, store, "w2", may_try=False) == ()
    assert len(await run(ready, store, "w3")) == 1


async def test_who_kills_a_second_engine_is_not_run_a_third_time(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("poison"))
    assert await die(ready, "w1", await run(ready, store, "w1")) == {"poison": "ring"}
    on_trial = await run(ready, store, "w2")
    assert await die(ready, "w2", on_trial) == {"poison": "guilty"}
    assert await run(ready, store, "w3") == ()


async def test_neighbours_of_the_guilty_keep_their_retries(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("poison", qos_class=QosClass.P0))
    await die(ready, "w1", await run(ready, store, "w1"))
    await ready.admit(item("neighbour", qos_class=QosClass.P0))  # may be retried once
    second = await run(ready, store, "w2")
    assert await die(ready, "w2", second) == {"poison": "guilty", "neighbour": "ring"}
    (alone,) = await run(ready, store, "w3")
    assert alone.request_id == "neighbour"
    assert not alone.on_trial
    assert await die(ready, "w3", (alone,)) == {"neighbour": "ring"}


async def test_who_was_acquitted_is_not_guilty_of_the_next_death(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("unlucky"))
    await die(ready, "w1", await run(ready, store, "w1"))
    (tried,) = await run(ready, store, "w2")
    assert tried.trial_tokens == 2
    await ready.acquit("unlucky", "w2", tried.attempt)
    assert await die(ready, "w2", (tried,)) == {"unlucky": "ring"}
    (again,) = await run(ready, store, "w3")
    assert again.on_trial
    assert again.trial_tokens is None  # to its end this time


async def test_who_had_run_for_long_is_no_suspect_at_first(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("old"))
    await die(ready, "w1", await run(ready, store, "w1"), made=100)
    (again,) = await run(ready, store, "w2")
    assert not again.on_trial
    assert (again.delivered_tokens, again.attempt) == (100, 1)


async def test_one_lost_worker_makes_nobody_a_suspect_but_a_second_does(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("r1"))
    for worker_id, suspected in (("w1", False), ("w2", False), ("w3", True)):
        (held,) = await run(ready, store, worker_id)
        assert held.on_trial == suspected
        world.kill(store, f"sl:worker:{worker_id}")
        world.sweep(store)
        state = await ready.requeue("r1", "g1", held.attempt + 1, "", 0)
    assert state == "guilty"


async def test_a_suspect_that_waits_too_long_is_refused(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("r1"))
    await die(ready, "w1", await run(ready, store, "w1"))
    store.hset("sl:item:r1", "deadline", 1)
    assert await run(ready, store, "w2") == ()
    assert [one["outcome"] for one in world.settlements(store)] == ["expired"]
    assert world.leftovers(store) == []
