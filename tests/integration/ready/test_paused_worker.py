"""A ticket that reaches a worker which takes no work is passed on, so that nothing waits for it."""

import pytest
from redis import Redis as SyncRedis

from domain.qos import QosClass
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted


@pytest.mark.parametrize("state", ["paused", "draining"])
@pytest.mark.parametrize("qos_class", list(QosClass))
async def test_it_names_who_has_room_and_lets_the_next_ticket_be_rung(
    ready: ReadySet, item: MakeItem, store: SyncRedis, state: str, qos_class: QosClass
) -> None:
    store.hset("sl:switch", "worker:w1", state)
    world.beat(store, "w1", 4)
    world.beat(store, "w2", 4)
    await ready.admit(item("r1", qos_class=qos_class))
    claimed = await world.claim(ready, "w1", 4)
    assert claimed.items == ()
    assert claimed.other_workers == ("w2",)
    assert claimed.waiting == 0  # nothing that it may take
    verdict = await ready.admit(item("r2", qos_class=qos_class))
    assert isinstance(verdict, Admitted)
    assert verdict.ring
    assert len((await world.claim(ready, "w2", 4)).items) == 2


async def test_it_runs_no_suspect_either(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    world.beat(store, "w1", 4)
    await ready.admit(item("r1"))
    await world.claim(ready, "w1", 4)
    await ready.lose("r1", "w1", 0, "engine_dead")
    await ready.requeue("r1", "g1", 1, "", 0)
    store.hset("sl:switch", "worker:w1", "paused")
    assert (await world.claim(ready, "w1", 4)).items == ()
    store.hdel("sl:switch", "worker:w1")
    assert [one.on_trial for one in (await world.claim(ready, "w1", 4)).items] == [True]
