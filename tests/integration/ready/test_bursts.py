"""Requests that come all at once wait for a connection to the store; none is refused for want of one."""

import asyncio

from redis import Redis as SyncRedis

from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted


async def test_a_burst_is_admitted_whole(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    names = [f"r{number}" for number in range(300)]
    verdicts = await asyncio.gather(*(ready.admit(item(name)) for name in names))
    assert {type(verdict) for verdict in verdicts} == {Admitted}
    world.beat(store, "w1", 400)
    assert {one.request_id for one in (await world.claim(ready, "w1", 400)).items} == set(names)
