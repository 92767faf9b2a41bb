"""What holds when the store itself was away, or came back without its memory."""

from redis import Redis as SyncRedis

from domain.outcome import Outcome
from domain.usage import Usage
from gateway.audit import Audit
from gateway.relay import Relay
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready import scripts
from workers.ready.item import Ending
from workers.ready.ready_set import ReadySet
from workers.strays import Strays

FAILED = Ending("failed", 503, "engine_failed", Usage(7, 0, 3), None)


async def running(ready: ReadySet, store: SyncRedis, item: MakeItem) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1"))
    await world.claim(ready, "w1", 8)


def relay_of(request_id: str, attempt: int = 0) -> Relay:
    relay = Relay(request_id, attempt=attempt)
    relay.admitted = True
    return relay


async def audit_thrice(ready: ReadySet, *relays: Relay) -> None:
    audit = Audit(ready, "g1", {relay.request_id: relay for relay in relays})
    for _ in range(3):
        await audit.once()


async def test_a_worker_that_speaks_before_the_sweep_keeps_what_it_runs(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await running(ready, store, item)
    world.kill(store, "sl:worker:w1")
    assert world.beat(store, "w1", 7, first=False) == 0
    assert world.sweep(store) == [0, 0, 0]
    assert await world.finish(ready, "r1", "w1")


async def test_nobody_is_buried_right_after_the_store_was_away(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await running(ready, store, item)
    world.sweep(store)
    store.set("sl:swept", 1)  # long ago
    for key in ("sl:worker:w1", "sl:gateway:g1"):
        world.kill(store, key)
    store.delete("sl:sweep")
    assert store.register_script(scripts.source("sweep"))(args=[1, 1000]) == [0, 0, 0]
    assert 0 < store.pttl("sl:grace") <= 2000
    store.delete("sl:sweep", "sl:grace")
    assert store.register_script(scripts.source("sweep"))(args=[1, 1000]) == [1, 1, 0]


async def test_an_item_that_the_store_lost_is_settled_by_its_gateway(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("r1", limits=world.limits(tokens_per_minute=1000)))
    store.flushall()
    assert await ready.cancel("r1", "failed", 503, "engine_failed", Usage()) == "gone"
    await ready.settle_forgotten(item("r1", limits=world.limits(tokens_per_minute=1000)), FAILED, 1_700_000_000_000, 1)
    settled = world.settlements(store)
    assert [(one["rid"], one["outcome"], one["completion"], one["attempt"]) for one in settled] == [
        ("r1", "failed", "3", "1")
    ]
    assert settled[0]["t_admit"] == "1700000000000"
    assert store.exists("sl:rate:t:1") == 0
    assert world.leftovers(store) == []


async def test_an_item_that_is_there_is_not_settled_as_forgotten(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("r1"))
    await ready.settle_forgotten(item("r1"), FAILED, 1, 0)
    assert world.settlements(store) == []


async def test_a_client_does_not_wait_for_an_item_that_the_store_lost(ready: ReadySet, item: MakeItem) -> None:
    await ready.admit(item("kept"))
    kept, lost = relay_of("kept"), relay_of("lost")
    admitting = Relay("not admitted yet")
    await audit_thrice(ready, kept, lost, admitting)
    assert lost.end is not None
    assert (lost.end.outcome, lost.end.status) == (Outcome.FAILED, 503)
    assert kept.end is None
    assert admitting.end is None


async def test_an_item_that_ended_a_moment_ago_is_not_forgotten(ready: ReadySet, item: MakeItem) -> None:
    await ready.admit(item("r1"))
    relay = relay_of("r1")
    audit = Audit(ready, "g1", {"r1": relay})
    await audit.once()
    await ready.cancel("r1", "completed", 200, "", Usage())  # its last event is still on its way
    await audit.once()
    assert relay.end is None


async def test_an_item_that_the_store_knows_from_before_its_last_retry_fails(ready: ReadySet, item: MakeItem) -> None:
    await ready.admit(item("r1"))
    ahead = relay_of("r1", attempt=1)
    await audit_thrice(ready, ahead)
    assert ahead.end is not None


async def test_a_loss_that_was_never_told_is_noticed(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await running(ready, store, item)
    assert await ready.lose("r1", "w1", 0, "engine_dead")
    relay = relay_of("r1")
    await audit_thrice(ready, relay)
    assert (relay.attempt, relay.lost_cause) == (1, "engine_dead")


async def test_an_item_without_a_connection_is_ended(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("abandoned"))
    await ready.admit(item("r1"))
    await audit_thrice(ready, relay_of("r1"))
    assert [(one["rid"], one["outcome"]) for one in world.settlements(store)] == [("abandoned", "cancelled")]


async def test_items_whose_claim_never_arrived_are_given_back(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await running(ready, store, item)  # in the worker's name, but it never hears of it
    strays = Strays(ready, "w1", running=set())
    await strays.give_back()
    assert store.hget("sl:item:r1", "state") == b"leased"
    await strays.give_back()
    assert store.hget("sl:item:r1", "state") == b"lost"
    assert world.events(store)[-1][:6] == [b"r1", 1, -1, b"L", b"worker_lost", b"w1"]
