"""What operators pause or drain takes effect at once, in the scripts themselves."""

from redis import Redis as SyncRedis

from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Closed


async def test_a_paused_queue_admits_and_keeps_waiting(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 8)
    store.hset("sl:switch", "queue:m:p1", "paused")
    admitted = await ready.admit(item("r1"))
    assert isinstance(admitted, Admitted)
    assert not admitted.ring
    assert world.beat(store, "w1", 8, first=False) == 0
    assert (await world.claim(ready, "w1", 8)).items == ()
    store.hdel("sl:switch", "queue:m:p1")
    assert len((await world.claim(ready, "w1", 8)).items) == 1


async def test_a_draining_queue_refuses_and_runs_out(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1"))
    store.hset("sl:switch", "queue:m:p1", "draining")
    refused = await ready.admit(item("r2"))
    assert isinstance(refused, Closed)
    assert refused.reason == "draining"
    assert [one.request_id for one in (await world.claim(ready, "w1", 8)).items] == ["r1"]


async def test_a_switched_off_worker_claims_nothing_and_shows_no_room(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1"))
    for state in ("paused", "draining"):
        store.hset("sl:switch", "worker:w1", state)
        assert (await world.claim(ready, "w1", 8)).items == ()
        assert world.beat(store, "w1", 8, first=False) == 0
        assert store.hget("sl:room:m:p1", "w1") == b"0"
    store.hdel("sl:switch", "worker:w1")
    assert world.beat(store, "w1", 8, first=False) == 1


async def test_a_dead_workers_switch_goes_with_it(ready: ReadySet, store: SyncRedis) -> None:
    world.beat(store, "w1", 8)
    store.hset("sl:switch", "worker:w1", "paused")
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    assert store.hgetall("sl:switch") == {}
