"""An order to abort ends its item, however early it comes."""

import asyncio
import dataclasses

import pytest
from redis import Redis as SyncRedis

from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.runner import Runner
from workers.running import Claiming

ABORT = {b"abort": b"r1", b"outcome": b"cancelled", b"status": b"499", b"code": b"client_closed"}
ENDLESS = b'{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"sim":"hang_after=0"}}'


async def settled(store: SyncRedis) -> list[str]:
    for _ in range(200):
        if found := [one["outcome"] for one in world.settlements(store)]:
            return found
        await asyncio.sleep(0.02)
    return []


@pytest.mark.parametrize("when", ["before the claim is known", "before its first step", "while it runs"])
async def test_an_order_ends_its_item(
    when: str, runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=ENDLESS))
    claim = await world.claim(ready, "w1", 8)
    if when == "before the claim is known":
        runner._orders.take(ABORT)
    runner._start(claim, Claiming("pull"))
    if when == "while it runs":
        await asyncio.sleep(0.05)
    if when != "before the claim is known":
        runner._orders.take(ABORT)
    assert await settled(store) == ["cancelled"]
    assert world.leftovers(store) == []
    assert runner.running() == 0
    assert runner.rooms() == "p0=8,p1=8,p2=7"


async def test_a_task_that_is_dropped_before_its_first_step_leaves_its_place(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=ENDLESS))
    runner._start(await world.claim(ready, "w1", 8), Claiming("pull"))
    runner._executor.drop_all()
    await asyncio.sleep(0.05)
    assert runner.running() == 0
    assert runner.rooms() == "p0=8,p1=8,p2=7"


async def test_the_timer_of_an_earlier_trial_does_not_end_the_one_under_way(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=ENDLESS))
    (claimed,) = (await world.claim(ready, "w1", 8)).items
    earlier = dataclasses.replace(claimed, on_trial=True, trial_tokens=2)
    runner._executor.start(dataclasses.replace(claimed, attempt=2, on_trial=True), None, Claiming("pull"))
    runner._executor._acquit(earlier)
    assert runner._governor.trial == "r1"
    runner._executor._acquit(runner._executor.running["r1"].item)
    assert runner._governor.trial == ""
    runner._executor.drop_all()
    await asyncio.sleep(0.05)
