"""A worker that is lost during a trial may only have stalled: its suspect is tried again before it is found guilty."""

from redis import Redis as SyncRedis

from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.item import ClaimedItem
from workers.ready.ready_set import ReadySet


async def run(ready: ReadySet, store: SyncRedis, worker_id: str) -> dict[str, ClaimedItem]:
    world.beat(store, worker_id, 8)
    return {one.request_id: one for one in (await world.claim(ready, worker_id, 8)).items}


def bury(store: SyncRedis, worker_id: str) -> None:
    world.kill(store, f"sl:worker:{worker_id}")
    world.sweep(store)


async def test_a_suspect_is_tried_again_and_its_neighbours_keep_their_retries(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("suspect"))
    await run(ready, store, "w1")
    await ready.lose("suspect", "w1", 0, "engine_dead")
    await ready.requeue("suspect", "g1", 1, "", 0)
    await ready.admit(item("neighbour"))
    held = await run(ready, store, "w2")
    assert held["suspect"].on_trial
    bury(store, "w2")
    assert await ready.requeue("suspect", "g1", 2, "", 0) == "ring"
    assert await ready.requeue("neighbour", "g1", 1, "", 0) == "ready"
    assert store.hget("sl:item:neighbour", "forgiven") == b"1"
    held = await run(ready, store, "w3")
    assert held["suspect"].on_trial
    assert not held["neighbour"].on_trial
    bury(store, "w3")
    assert await ready.requeue("suspect", "g1", 3, "", 0) == "guilty"


async def test_an_engine_that_dies_during_the_trial_is_proof(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("poison"))
    await run(ready, store, "w1")
    await ready.lose("poison", "w1", 0, "engine_dead")
    await ready.requeue("poison", "g1", 1, "", 0)
    await run(ready, store, "w2")
    await ready.lose("poison", "w2", 1, "engine_dead")
    assert await ready.requeue("poison", "g1", 2, "", 0) == "guilty"
