"""What an idempotency key does in the ready set: one run while its note lives, and no note without its item."""

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis as SyncRedis

from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.item import Ending, NewItem, Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Closed, Repeated

NOTE = Note("1:aaaa", "body-1", ttl_ms=60_000, keep_ms=0)
KEY = "sl:idem:1:aaaa"

MakeKeyed = Callable[..., NewItem]


@pytest.fixture
def keyed(item: MakeItem) -> MakeKeyed:
    """Makes items that carry one idempotency key."""

    def make(request_id: str, note: Note = NOTE, **changes: Any) -> NewItem:
        return item(request_id, note=note, **changes)

    return make


async def answered(ready: ReadySet, store: SyncRedis, item: NewItem) -> None:
    """Admit, claim and finish it."""
    world.beat(store, "w1", 8)
    assert isinstance(await ready.admit(item), Admitted)
    assert len((await world.claim(ready, "w1", 8)).items) == 1
    assert await world.finish(ready, item.request_id, "w1")


async def test_a_key_admits_once_while_its_request_runs(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    assert isinstance(await ready.admit(keyed("r1")), Admitted)
    assert await ready.admit(keyed("r2")) == Repeated("running", "r1", b"")
    assert store.keys("sl:item:*") == [b"sl:item:r1"]
    assert store.pttl(KEY) == -1  # it goes with its item, however long that takes


async def test_the_same_admission_sent_twice_is_no_repetition(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis
) -> None:
    assert isinstance(await ready.admit(keyed("r1")), Admitted)
    assert isinstance(await ready.admit(keyed("r1")), Admitted)
    world.beat(store, "w1", 8)
    assert len((await world.claim(ready, "w1", 8)).items) == 1
    assert await world.finish(ready, "r1", "w1")
    assert isinstance(await ready.admit(keyed("r1")), Admitted)  # its first reply came late, the answer did not
    assert len(world.settlements(store)) == 1
    assert world.leftovers(store) == []


async def test_an_answered_key_stays_used_for_its_time(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    await answered(ready, store, keyed("r1"))
    assert await ready.admit(keyed("r2")) == Repeated("used", "r1", b"")
    assert 0 < int(store.pttl(KEY)) <= NOTE.ttl_ms


async def test_a_kept_answer_is_given_again(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    keeping = Note("1:aaaa", "body-1", ttl_ms=60_000, keep_ms=30_000)
    await answered(ready, store, keyed("r1", keeping))
    assert await ready.admit(keyed("r2", keeping)) == Repeated("running", "r1", b"")  # not written down yet
    await ready.keep_answer("r1", b"answer", keeping.keep_ms)
    assert await ready.admit(keyed("r3", keeping)) == Repeated("done", "r1", b"answer")
    assert 0 < int(store.pttl("sl:kept:r1")) <= keeping.keep_ms
    assert await ready.admit(keyed("r4", Note("1:aaaa", "body-2", 60_000, 30_000))) == Repeated("other_body", "r1", b"")


async def test_an_answer_that_was_never_written_down_is_not_waited_for_for_ever(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis
) -> None:
    keeping = Note("1:aaaa", "body-1", ttl_ms=60_000, keep_ms=30_000)
    await answered(ready, store, keyed("r1", keeping))
    store.hincrby(KEY, "at", -10_000)
    assert await ready.admit(keyed("r2", keeping)) == Repeated("used", "r1", b"")


async def test_another_body_is_told_so_while_it_runs_and_after(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis
) -> None:
    other = Note("1:aaaa", "body-2", 60_000, 0)
    await ready.admit(keyed("r1"))
    assert await ready.admit(keyed("r2", other)) == Repeated("other_body", "r1", b"")
    world.beat(store, "w1", 8)
    await world.claim(ready, "w1", 8)
    await world.finish(ready, "r1", "w1")
    assert await ready.admit(keyed("r3", other)) == Repeated("other_body", "r1", b"")


@pytest.mark.parametrize("outcome", ["cancelled", "failed", "timeout"])
async def test_a_request_that_got_no_full_answer_frees_its_key(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis, outcome: str
) -> None:
    await ready.admit(keyed("r1"))
    await ready.cancel("r1", outcome, 500, "", Usage(3, 0, 2))
    assert store.exists(KEY) == 0
    await answered(ready, store, keyed("r2"))
    assert await ready.admit(keyed("r3")) == Repeated("used", "r2", b"")


async def test_a_refused_request_notes_nothing(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    assert isinstance(await ready.admit(keyed("r1", max_waiting=0)), Closed)
    assert store.keys("sl:idem:*") == []


async def test_a_repetition_passes_a_limit_that_is_used_up(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    await ready.admit(keyed("r1", max_waiting=1))
    assert isinstance(await ready.admit(keyed("r2", Note("1:bbbb", "b", 1000, 0), max_waiting=1)), Closed)
    assert isinstance(await ready.admit(keyed("r3", max_waiting=1)), Repeated)


async def test_the_dead_free_their_keys_or_keep_them_with_the_item(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis
) -> None:
    await ready.admit(keyed("r1"))
    world.beat(store, "w1", 8)
    await world.claim(ready, "w1", 8)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    assert await ready.admit(keyed("r2")) == Repeated("running", "r1", b"")  # it goes on elsewhere
    world.kill(store, "sl:gateway:g1")
    world.sweep(store)
    assert store.keys("sl:idem:*") == []
    assert world.leftovers(store) == []


async def test_an_end_that_comes_late_does_not_undo_the_answer(
    ready: ReadySet, keyed: MakeKeyed, store: SyncRedis
) -> None:
    await answered(ready, store, keyed("r1"))
    ending = Ending("cancelled", 499, "client_closed", Usage(), None)
    await ready.settle_forgotten(keyed("r1"), ending, 0, 0)  # its client left in the moment of the end
    assert await ready.admit(keyed("r2")) == Repeated("used", "r1", b"")


async def test_a_note_whose_item_is_gone_holds_nobody_up(ready: ReadySet, keyed: MakeKeyed, store: SyncRedis) -> None:
    await ready.admit(keyed("r1"))
    store.delete("sl:item:r1")
    assert isinstance(await ready.admit(keyed("r2")), Admitted)
    assert await ready.admit(keyed("r3")) == Repeated("running", "r2", b"")
