"""When a request's time is up, what never ran is refused as having waited too long, and what ran has run too long."""

from redis import Redis as SyncRedis

from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.scripts import RESUME_MS


async def time_is_up(ready: ReadySet, request_id: str) -> str:
    return await ready.cancel(request_id, "timeout", 504, "timeout", Usage())


async def test_what_never_ran_is_refused(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("r1"))
    assert await time_is_up(ready, "r1") == "expired"
    assert [event[3:6] for event in world.events(store)] == [[b"E", b"expired", 429]]
    (settled,) = world.settlements(store)
    assert (settled["outcome"], settled["status"], settled["code"]) == ("expired", "429", "queue_deadline")
    assert (settled["t_claim"], settled["worker"]) == ("", "")
    assert world.leftovers(store) == []


async def test_what_runs_is_stopped(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 1)
    await ready.admit(item("r1"))
    await world.claim(ready, "w1", 1)
    assert await time_is_up(ready, "r1") == "aborting"
    assert world.settlements(store) == []


async def test_what_ran_and_waits_again_has_run_too_long(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 1)
    await ready.admit(item("r1"))
    await world.claim(ready, "w1", 1)
    await ready.lose("r1", "w1", 0, "engine_error")
    await ready.requeue("r1", "g1", 1, "", 0)
    assert await time_is_up(ready, "r1") == "closed"
    assert [one["outcome"] for one in world.settlements(store)] == ["timeout"]
    assert world.leftovers(store) == []


async def test_what_lost_its_engine_may_wait_until_another_has_started(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 1)
    await ready.admit(item("r1", queue_ms=200))
    await world.claim(ready, "w1", 1)
    await ready.lose("r1", "w1", 0, "engine_dead")
    await ready.requeue("r1", "g1", 1, "half an answer", 4)
    seconds, microseconds = store.time()
    left_ms = int(store.hget("sl:item:r1", "deadline")) - seconds * 1000 - microseconds / 1000
    assert left_ms > RESUME_MS - 10_000
