"""Claims, endings and what happens when somebody dies."""

from redis import Redis as SyncRedis

from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet


async def claimed(ready: ReadySet, store: SyncRedis, item: MakeItem, worker_id: str = "w1") -> None:
    world.beat(store, worker_id, 8)
    await ready.admit(item("r1"))
    assert len((await world.claim(ready, worker_id, 8)).items) == 1


async def test_a_claim_takes_as_many_as_there_is_room_for(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 3)
    for n in range(5):
        await ready.admit(item(f"r{n}"))
    claim = await world.claim(ready, "w1", 3)
    assert [one.item_seq for one in claim.items] == [0, 1, 2]
    assert claim.items[0].body == b'{"x":1}'
    assert claim.waiting == 2
    assert store.hget("sl:room:m:p1", "w1") == b"0"


async def test_more_urgent_classes_are_claimed_first(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 3)
    await ready.admit(item("late", qos_class=QosClass.P2))
    await ready.admit(item("normal"))
    await ready.admit(item("urgent", qos_class=QosClass.P0))
    assert [one.request_id for one in (await world.claim(ready, "w1", 3)).items] == ["urgent", "normal", "late"]


async def test_background_work_leaves_the_reserve_free(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    for n in range(4):
        await ready.admit(item(f"r{n}", qos_class=QosClass.P2))
    assert len((await world.claim(ready, "w1", 4, kept={QosClass.P2: 1})).items) == 3


async def test_tenants_take_turns_whoever_came_first(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    for n in range(6):
        await ready.admit(item(f"a{n}", tenant="noisy"))
    await ready.admit(item("b0", tenant="quiet"))
    order = [one.request_id for one in (await world.claim(ready, "w1", 3)).items]
    assert "b0" in order[:2]


async def test_a_heavier_tenant_gets_its_share(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 12)
    for n in range(12):
        await ready.admit(item(f"a{n}", tenant="light", weight=1.0))
        await ready.admit(item(f"b{n}", tenant="heavy", weight=3.0))
    tenants = [one.tenant for one in (await world.claim(ready, "w1", 12)).items]
    assert tenants.count("heavy") == 9


async def test_one_of_many_sequences_waits_for_room_unless_the_engine_is_idle(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 2)
    await ready.admit(item("wide", sequences=4))
    assert (await world.claim(ready, "w1", 2)).items == ()
    assert len((await world.claim(ready, "w1", 2, idle=True)).items) == 1


async def test_an_item_ends_once(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await claimed(ready, store, item)
    assert await world.finish(ready, "r1", "w1")
    assert not await world.finish(ready, "r1", "w1")
    assert [one["outcome"] for one in world.settlements(store)] == ["completed"]
    assert world.leftovers(store) == []


async def test_only_its_holder_can_end_it(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await claimed(ready, store, item)
    assert not await world.finish(ready, "r1", "w2")
    assert not await world.finish(ready, "r1", "w1", attempt=1)
    assert world.settlements(store) == []


async def test_a_dead_workers_items_run_elsewhere_from_what_was_delivered(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await claimed(ready, store, item)
    world.kill(store, "sl:worker:w1")
    assert world.sweep(store) == [1, 0, 0]
    assert world.events(store)[-1][3:7] == [b"L", b"worker_lost", b"w1", b"b-1"]
    world.beat(store, "w2", 8)
    assert await ready.requeue("r1", "g1", 1, "Hello wor", 3) == "ring"
    assert await ready.requeue("r1", "g1", 1, "Hello wor", 3) == "ready"  # asked twice, put back once
    again = (await world.claim(ready, "w2", 8)).items[0]
    assert (again.attempt, again.delivered_text, again.delivered_tokens) == (1, "Hello wor", 3)
    assert not await world.finish(ready, "r1", "w1", attempt=0)  # the dead one wakes up
    assert await world.finish(ready, "r1", "w2", attempt=1)
    settled = world.settlements(store)[0]
    assert (settled["attempt"], settled["cause"]) == ("1", "worker_lost")
    assert world.leftovers(store) == []


async def test_the_dead_have_no_room(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await claimed(ready, store, item)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    await world.finish(ready, "r1", "w1", free=8)
    assert store.hgetall("sl:room:m:p1") == {}


async def test_retries_are_bounded(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("r1", qos_class=QosClass.P0))
    for attempt in (0, 1):
        world.beat(store, "w1", 8)
        assert len((await world.claim(ready, "w1", 8)).items) == 1
        assert await ready.lose("r1", "w1", attempt, "engine_error")
        state = await ready.requeue("r1", "g1", attempt + 1, "", 0)
    assert state == "spent"
    assert await ready.cancel("r1", "failed", 502, "engine_failed", Usage(3, 0, 2)) == "closed"
    assert world.settlements(store)[0]["completion"] == "2"
    assert world.leftovers(store) == []


async def test_a_worker_taken_for_dead_learns_it_and_claims_nothing(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await claimed(ready, store, item)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    assert world.beat(store, "w1", 8, first=False) == -1
    assert await ready.claim("w1", "m", "b-2", world.room(8, idle=True)) is None


async def test_a_client_that_leaves_while_waiting_ends_its_item(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("r1"))
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "closed"
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "gone"
    world.beat(store, "w1", 8)
    assert (await world.claim(ready, "w1", 8)).items == ()
    assert [one["status"] for one in world.settlements(store)] == ["499"]
    assert world.leftovers(store) == []


async def test_a_client_that_leaves_while_running_has_its_worker_told(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await claimed(ready, store, item)
    assert await ready.cancel("r1", "cancelled", 499, "client_closed", Usage()) == "aborting"
    orders = store.xrange("sl:ctl:w1")
    assert orders[-1][1][b"abort"] == b"r1"


async def test_a_dead_gateways_items_are_ended_wherever_they_are(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await claimed(ready, store, item)
    await ready.admit(item("waiting"))
    world.kill(store, "sl:gateway:g1")
    world.sweep(store)
    assert [one["outcome"] for one in world.settlements(store)] == ["gateway_lost"]
    assert store.xrange("sl:ctl:w1")[-1][1][b"abort"] == b"r1"
    await world.finish(ready, "r1", "w1")  # its worker obeys
    world.sweep(store)
    assert world.leftovers(store) == []
    assert store.scard("sl:gateways") == 0


async def test_gateway_and_worker_dead_together_leave_nothing(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await claimed(ready, store, item)
    world.kill(store, "sl:gateway:g1")
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    world.sweep(store)
    assert [one["outcome"] for one in world.settlements(store)] == ["gateway_lost"]
    assert world.leftovers(store) == []


async def test_an_item_that_waited_too_long_is_refused_not_run(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("swept"))
    await ready.admit(item("met at the claim"))
    for request_id in ("swept", "met at the claim"):
        store.hset(f"sl:item:{request_id}", "deadline", 1)
    store.zadd("sl:deadlines", {"swept": 1})
    assert world.sweep(store) == [0, 0, 1]
    world.beat(store, "w1", 8)
    assert (await world.claim(ready, "w1", 8)).items == ()
    assert [event[3:6] for event in world.events(store)] == [[b"E", b"expired", 429]] * 2
    assert world.leftovers(store) == []


async def test_work_that_waits_is_seen_at_the_next_beat(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1"))
    assert world.beat(store, "w1", 8, first=False) == 1
