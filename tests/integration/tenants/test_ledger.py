"""The ledger on a real Valkey and a real database: nothing lost, nothing doubled, wherever it stops."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, connections
from redis import Redis
from redis.exceptions import RedisError

from tenants.models import UsageRecord, UsageRollup
from tests.integration.tenants.ends import NOON_MS, tell
from workers.settlement import ledger as ledger_module
from workers.settlement.ledger import BATCH, GROUP, SET_ASIDE, STREAM, Ledger

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def make(store: Redis) -> Callable[[str], Ledger]:
    store.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    return lambda name: Ledger(store, name)


def recorded() -> set[str]:
    return set(UsageRecord.objects.values_list("request_id", flat=True))


def summed(period: str = "h") -> tuple[int, int]:
    found = UsageRollup.objects.filter(period=period).values_list("requests", "completion_tokens")
    return sum(requests for requests, _ in found), sum(tokens for _, tokens in found)


def left(store: Redis) -> tuple[int, int]:
    pending: Any = store.xpending(STREAM, GROUP)
    return store.xlen(STREAM), pending["pending"]


def test_what_ended_becomes_rows_and_leaves_the_stream(store: Redis, make: Callable[[str], Ledger]) -> None:
    ids = tell(store, 3, cost=7_000, price=12, cache="hit")

    assert make("one").step(b">") == 3

    assert recorded() == set(ids)
    assert set(UsageRecord.objects.values_list("cost_nano", "price_id", "cache")) == {(7_000, 12, "hit")}
    assert left(store) == (0, 0)


def test_a_ledger_that_died_before_it_wrote_loses_nothing(store: Redis, make: Callable[[str], Ledger]) -> None:
    ids = tell(store, 3)
    store.xreadgroup(GROUP, "died", {STREAM: ">"})  # read, then killed

    other = make("other")
    assert other.step(b">") == 0
    assert other.take_over(idle_ms=0) == 3

    assert recorded() == set(ids)
    assert left(store) == (0, 0)


def test_a_ledger_that_died_after_it_wrote_doubles_nothing(
    store: Redis, make: Callable[[str], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tell(store, 3)
    with monkeypatch.context() as patch:
        patch.setattr(store, "pipeline", _lost)
        with pytest.raises(RedisError):
            make("died").step(b">")
    assert recorded() == set(ids)
    assert left(store) == (3, 3)

    assert make("other").take_over(idle_ms=0) == 3

    assert UsageRecord.objects.count() == 3
    assert summed("h") == summed("d") == (3, 15)
    assert left(store) == (0, 0)


def _lost(*_: Any, **__: Any) -> Any:
    raise RedisError("the connection is gone")


def test_what_could_not_be_written_is_written_later(store: Redis, make: Callable[[str], Ledger]) -> None:
    ids = tell(store, 2)
    ledger = make("one")
    _rename("tenants_usagerollup", "gone")
    try:
        with pytest.raises(DatabaseError):
            ledger.step(b">")
        assert recorded() == set()  # no row without its sums
    finally:
        _rename("gone", "tenants_usagerollup")

    assert ledger.step(b"0") == 2
    assert recorded() == set(ids)
    assert summed() == (2, 10)


def _rename(table: str, to: str) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")


def test_many_ledgers_share_the_work(store: Redis, make: Callable[[str], Ledger]) -> None:
    ids = [request_id for tenant in range(8) for request_id in tell(store, 3 * BATCH // 8, tenant_id=tenant)]
    tell(store, 50, rid=ids[0])  # told again and again

    def settle(name: str) -> None:
        ledger = make(name)
        try:
            while ledger.step(b">") or ledger.take_over(idle_ms=0):
                pass
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(settle, ("one", "two", "three")))

    assert recorded() == set(ids)
    assert summed("h") == summed("d") == (len(ids), 5 * len(ids))
    assert left(store) == (0, 0)


def test_an_entry_that_is_none_is_set_aside_and_holds_up_nobody(store: Redis, make: Callable[[str], Ledger]) -> None:
    good = tell(store, 2)
    store.xadd(STREAM, {"rid": "r", "tenant_id": "not a number"})

    assert make("one").step(b">") == 3

    assert recorded() == set(good)
    aside: Any = store.xrange(SET_ASIDE)
    assert [fields for _, fields in aside] == [{b"rid": b"r", b"tenant_id": b"not a number"}]
    assert left(store) == (0, 0)


@pytest.mark.parametrize("changes", [{"prompt": -1}, {"cost": 2**80}])
def test_a_row_that_no_column_takes_is_set_aside_and_holds_up_nobody(
    store: Redis, make: Callable[[str], Ledger], changes: dict[str, int]
) -> None:
    good = tell(store, 2)
    bad = tell(store, 1, **changes)
    good += tell(store, 2)

    assert make("one").step(b">") == 5

    assert recorded() == set(good)
    assert summed("h") == summed("d") == (4, 20)
    aside: Any = store.xrange(SET_ASIDE)
    assert [fields[b"rid"].decode() for _, fields in aside] == bad
    assert left(store) == (0, 0)


def test_ledgers_that_are_gone_are_forgotten_once_they_hold_nothing(
    store: Redis, make: Callable[[str], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, 1)
    store.xreadgroup(GROUP, "holds one", {STREAM: ">"})
    store.xgroup_createconsumer(STREAM, GROUP, "holds none")
    monkeypatch.setattr(ledger_module, "FORGET_MS", -1)
    monkeypatch.setattr(ledger_module, "BLOCK_MS", 1)
    ledger = make("lives")
    monkeypatch.setattr(ledger, "_forget", _once(ledger, ledger._forget))

    ledger.run()

    names = {consumer["name"] for consumer in _list(store.xinfo_consumers(STREAM, GROUP))}
    assert b"holds one" in names
    assert b"holds none" not in names


def _list(found: Any) -> list[Any]:
    return list(found)


def _once(ledger: Ledger, script: Callable[..., Any]) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        ledger.stop()
        return script(**arguments)

    return run


def test_a_price_of_nothing_and_an_old_entry_without_one_cost_nothing(
    store: Redis, make: Callable[[str], Ledger]
) -> None:
    tell(store, 1, cost=0, price=3)
    tell(store, 1, cost="", price="")

    make("one").step(b">")

    assert sorted(UsageRecord.objects.values_list("cost_nano", "price_id"), key=str) == [(0, 3), (0, None)]


def test_times_are_kept_to_the_millisecond(store: Redis, make: Callable[[str], Ledger]) -> None:
    tell(store, 1, t_end=NOON_MS + 1)

    make("one").step(b">")

    assert UsageRecord.objects.get().finished_at.microsecond == 1_000
