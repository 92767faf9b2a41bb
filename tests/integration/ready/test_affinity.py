"""Items go where their prefix is, as far as order and load allow."""

import secrets

from redis import Redis as SyncRedis

from domain.prefix import HASH_BYTES
from domain.qos import QosClass
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.item import Affinity
from workers.ready.ready_set import ReadySet

AFFINITY = Affinity(slack_tokens=4096, balance=2, leave_ms={QosClass.P0: 0, QosClass.P1: 60_000, QosClass.P2: 60_000})
ONE, TWO = (b"".join(secrets.token_bytes(HASH_BYTES) for _ in range(8)) for _ in range(2))


async def names(ready: ReadySet, worker_id: str, free: int, affinity: Affinity | None = AFFINITY) -> list[str]:
    claim = await world.claim(ready, worker_id, free, affinity=affinity)
    return [one.request_id for one in claim.items]


async def serve(ready: ReadySet, item: MakeItem, store: SyncRedis, worker_id: str, prefix: bytes) -> None:
    """Let a worker have this prefix in its cache."""
    world.beat(store, worker_id, 8)
    await ready.admit(item(f"first on {worker_id}", prefix=prefix))
    assert await names(ready, worker_id, 8) == [f"first on {worker_id}"]


async def test_a_worker_takes_what_it_knows_first(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await serve(ready, item, store, "w1", ONE)
    await ready.admit(item("other", prefix=TWO))
    await ready.admit(item("longer", prefix=ONE + TWO))
    assert await names(ready, "w1", 1) == ["longer"]


async def test_without_affinity_the_order_stands(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await serve(ready, item, store, "w1", ONE)
    await ready.admit(item("other", prefix=TWO))
    await ready.admit(item("known", prefix=ONE))
    assert await names(ready, "w1", 1, affinity=None) == ["other"]


async def test_what_another_worker_knows_is_left_to_it_while_it_has_room(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await serve(ready, item, store, "w1", ONE)
    world.beat(store, "w2", 8)
    await ready.admit(item("known on w1", prefix=ONE))
    claim = await world.claim(ready, "w2", 8, affinity=AFFINITY)
    assert claim.items == ()
    assert claim.other_workers == ("w1",)
    assert await names(ready, "w1", 8) == ["known on w1"]


async def test_it_is_not_left_to_a_worker_without_room_or_much_busier_or_dead(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    for number, free in enumerate((0, 5)):  # of 8: a difference of 3 is more than the balance allows
        await serve(ready, item, store, f"w{number}", ONE)
        world.beat(store, f"w{number}", free, first=False)
        await ready.admit(item(f"r{number}", prefix=ONE))
        world.beat(store, "free", 8)
        assert await names(ready, "free", 8) == [f"r{number}"]
        store.delete("sl:served:free")
    await serve(ready, item, store, "dead", ONE)
    world.kill(store, "sl:worker:dead")
    world.sweep(store)
    await ready.admit(item("r9", prefix=ONE))
    assert await names(ready, "free", 8) == ["r9"]


async def test_what_nobody_knows_is_left_to_a_worker_that_is_much_less_busy(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "busy", 3)
    world.beat(store, "idle", 8)
    await ready.admit(item("cold", prefix=ONE))
    claim = await world.claim(ready, "busy", 3, affinity=AFFINITY)
    assert (claim.items, claim.other_workers) == ((), ("idle",))
    assert await names(ready, "idle", 8) == ["cold"]


async def test_it_is_not_left_for_longer_than_the_class_allows(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await serve(ready, item, store, "w1", ONE)
    world.beat(store, "w2", 8)
    await ready.admit(item("waits", prefix=ONE))
    await ready.admit(item("urgent", prefix=ONE, qos_class=QosClass.P0))
    assert await names(ready, "w2", 1) == ["urgent"]
    store.hset("sl:item:waits", "t_ready", 1)
    assert await names(ready, "w2", 1) == ["waits"]


async def test_matches_overtake_a_head_only_so_often(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await serve(ready, item, store, "w1", ONE)
    await ready.admit(item("head", prefix=TWO))
    for n in range(40):
        await ready.admit(item(f"r{n:02}", prefix=ONE))
    order = await names(ready, "w1", 41)
    assert order.index("head") == 16


async def test_matches_overtake_other_tenants_only_within_the_slack(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await serve(ready, item, store, "w1", ONE)
    for n in range(8):
        await ready.admit(item(f"a{n}", tenant="matches", prefix=ONE, prompt_tokens=1000))
        await ready.admit(item(f"b{n}", tenant="other", prefix=b"", prompt_tokens=1000))
    order = await names(ready, "w1", 8)
    ahead = [sum(1 if one.startswith("a") else -1 for one in order[:place]) for place in range(len(order) + 1)]
    assert max(ahead) >= 2
    assert max(ahead) * 1000 <= AFFINITY.slack_tokens + 1000


async def test_what_a_worker_is_said_to_know_is_bounded(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", prefix=ONE))
    await ready.admit(item("r2", prefix=TWO))
    await world.claim(ready, "w1", 8, affinity=AFFINITY, served_prefixes=10)
    assert store.zcard("sl:served:w1") == 10
