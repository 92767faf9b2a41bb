"""The reconciliation on a real store and a real database: it finds and repairs what differs, and nothing else."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.models import F
from redis import Redis

from domain.limits import Level, Limit
from domain.price import PriceRow
from domain.usage import Usage
from tenants.adjust import make_adjustment
from tenants.models import ApiKey, Plan, Price, Tenant, UsageRecord, UsageRollup
from tenants.provision import create_key
from tests.integration.tenants.ends import ended
from tests.integration.tenants.settled_requests import MODEL, Requests
from tests.stack import wait_until
from workers.reconcile import seen
from workers.reconcile.difference import Check, Difference, Report
from workers.reconcile.lock import LOCK, Busy
from workers.reconcile.reconciliation import reconcile
from workers.settlement.keeper import Keeper
from workers.settlement.ledger import GROUP, SET_ASIDE, STREAM, Ledger

pytestmark = pytest.mark.django_db(transaction=True)

PRICES = (PriceRow(7, "", "", datetime(2020, 1, 1, tzinfo=UTC), 1_000, 100, 2_000),)
DAILY = (Limit(Level.KEY, "requests_per_day", 1_000_000), Limit(Level.TENANT, "max_concurrent", 1_000))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "PAUSE_S", 0.01)


@pytest.fixture
def tenant() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))


@pytest.fixture
def key(tenant: Tenant) -> ApiKey:
    return create_key(tenant, "shop")[0]


@pytest.fixture
def requests(store: Redis) -> Requests:
    store.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    made = Requests(store)
    made.began_long_ago()
    return made


@pytest.fixture
def used(store: Redis, requests: Requests, tenant: Tenant, key: ApiKey) -> list[str]:
    """Three that ended and have their rows, one that ended and has none, one that runs and one that waits."""
    ids = [requests.run(tenant.pk, key.pk, prices=PRICES, limits=DAILY) for _ in range(3)]
    settle(store)
    ids.append(requests.run(tenant.pk, key.pk, prices=PRICES, limits=DAILY))
    ids.append(requests.admit(tenant.pk, key.pk, prices=PRICES, limits=DAILY))
    requests.claim()
    ids.append(requests.admit(tenant.pk, key.pk, prices=PRICES, limits=DAILY))
    return ids


def settle(store: Redis) -> None:
    ledger = Ledger(store, "one")
    while ledger.step(b">"):
        pass


def look(store: Redis, *, repair: bool = False, **options: Any) -> Report:
    return reconcile(store, datetime.now(UTC) - timedelta(days=1), repair=repair, **options)


def today() -> str:
    return f"d{datetime.now(UTC):%Y%m%d}"


def this_month() -> str:
    return f"m{datetime.now(UTC):%Y%m}"


def figures(report: Report) -> set[tuple[Check, str, int]]:
    return {(one.check, one.what, one.found - one.expected) for one in report.differences}


def test_nothing_differs_whatever_runs_waits_or_has_no_row_yet(store: Redis, used: list[str]) -> None:
    report = look(store)

    assert report.differences == []
    assert (report.tenants, report.waiting) == (1, 1)


def test_what_a_request_cost_is_what_its_price_says(store: Redis, used: list[str], tenant: Tenant) -> None:
    cost = 10 * 1_000 + 8 * 100 + 7 * 2_000
    assert set(UsageRecord.objects.values_list("cost_nano", "price_id")) == {(cost, 7)}
    assert int(store.hget(f"sl:spent:t:{tenant.pk}:{this_month()}", "c") or 0) == 4 * cost


Damage = Callable[[Redis, Tenant, ApiKey, list[str]], object]


def _spend(store: Redis, whose: str, field: str, by: int) -> None:
    assert store.exists(f"sl:spent:{whose}")
    store.hincrby(f"sl:spent:{whose}", field, by)


DAMAGES: dict[str, tuple[Damage, set[tuple[Check, str, int]]]] = {
    "a tenant's day counts too much": (
        lambda store, tenant, key, ids: _spend(store, f"t:{tenant.pk}:{today()}", "i", 5),
        {(Check.SPENT, "i", 5)},
    ),
    "a tenant's month counts too little": (
        lambda store, tenant, key, ids: _spend(store, f"t:{tenant.pk}:{this_month()}", "c", -900),
        {(Check.SPENT, "c", -900)},
    ),
    "a key's day counts too much": (
        lambda store, tenant, key, ids: _spend(store, f"k:{key.pk}:{today()}", "o", 3),
        {(Check.SPENT, "o", 3)},
    ),
    "something is held for nobody": (
        lambda store, tenant, key, ids: _spend(store, f"t:{tenant.pk}:{today()}", "hr", 1),
        {(Check.HELD, "hr", 1)},
    ),
    "a key holds something for nobody": (
        lambda store, tenant, key, ids: _spend(store, f"k:{key.pk}:{today()}", "ho", 50),
        {(Check.HELD, "ho", 50)},
    ),
    "a tenant's day is gone": (
        lambda store, tenant, key, ids: store.delete(f"sl:spent:t:{tenant.pk}:{today()}"),
        {
            *((Check.HELD, name, -amount) for name, amount in (("hr", 2), ("hi", 40), ("ho", 100), ("hc", 240_000))),
            *((Check.SPENT, name, -amount) for name, amount in (("r", 4), ("i", 72), ("o", 28), ("c", 99_200))),
        },
    ),
    "a slot is left over": (
        lambda store, tenant, key, ids: store.sadd(f"sl:slots:t:{tenant.pk}", "gone"),
        {(Check.SLOTS, "gone", 1)},
    ),
    "the endings told too little": (
        lambda store, tenant, key, ids: store.hincrby(f"sl:made:{today()[1:]}", f"{MODEL}|completion_tokens", -2),
        {(Check.BILLED, f"{MODEL}|completion_tokens", -2)},
    ),
    "an hour's sum is wrong": (
        lambda store, tenant, key, ids: UsageRollup.objects.filter(period="h").update(cost_nano=F("cost_nano") + 1),
        {(Check.SUMS, "cost_nano", 1)},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_it_finds_and_repairs_when(name: str, store: Redis, used: list[str], tenant: Tenant, key: ApiKey) -> None:
    damage, expected = DAMAGES[name]
    damage(store, tenant, key, used)

    found = look(store)
    assert figures(found) == expected
    assert len(found.open) == len(expected)

    repaired = look(store, repair=True)
    assert figures(repaired) == expected
    assert repaired.open == []
    assert look(store).differences == []


def test_a_live_request_without_its_slot_gets_it_back(store: Redis, used: list[str], tenant: Tenant) -> None:
    store.srem(f"sl:slots:t:{tenant.pk}", used[-1])

    # Who has no slot is not found among what its tenant holds either.
    assert {check for check, *_ in figures(look(store))} == {Check.SLOTS, Check.HELD}
    assert look(store, repair=True).open == []
    assert look(store).differences == []
    assert store.sismember(f"sl:slots:t:{tenant.pk}", used[-1])


def test_sums_that_are_missing_or_of_nothing_are_put_right(
    store: Redis, used: list[str], tenant: Tenant, key: ApiKey
) -> None:
    UsageRollup.objects.filter(period="d").delete()
    UsageRollup.objects.create(
        period="h", starts_at=datetime.now(UTC).replace(minute=0, second=0, microsecond=0), tenant=tenant, key=key,
        model="other", qos_class="p0", requests=3,
    )  # fmt: skip

    assert look(store, repair=True).open == []
    assert look(store).differences == []
    assert UsageRollup.objects.get(period="d").requests == 3
    assert not UsageRollup.objects.filter(model="other").exists()


def test_a_row_that_was_lost_is_told_and_the_store_follows_the_database(
    store: Redis, used: list[str], tenant: Tenant
) -> None:
    UsageRecord.objects.filter(request_id=used[0]).delete()

    found = figures(look(store, repair=True))

    assert (Check.SPENT, "r", 1) in found
    assert (Check.BILLED, f"{MODEL}|requests", 1) in found
    assert look(store).differences == []


def test_what_the_store_did_not_see_it_is_not_asked_for(
    store: Redis, requests: Requests, tenant: Tenant, key: ApiKey
) -> None:
    requests.run(tenant.pk, key.pk)
    settle(store)
    store.flushall()
    store.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    Requests(store).run(tenant.pk, key.pk)  # counts from now on, and does not know what was before

    assert store.hget(f"sl:spent:t:{tenant.pk}:{today()}", "base") is None
    assert look(store).differences == []


def test_adjustments_count_in_the_store_and_in_the_comparison(store: Redis, used: list[str], tenant: Tenant) -> None:
    hash_before: Any = store.hgetall(f"sl:spent:t:{tenant.pk}:{this_month()}")
    made = make_adjustment(tenant, datetime.now(UTC).date(), -5_000, 20, "goodwill", None, store)
    type(made).objects.update(made_at=F("made_at") - timedelta(minutes=1))

    hash_after: Any = store.hgetall(f"sl:spent:t:{tenant.pk}:{this_month()}")
    assert int(hash_after[b"c"]) == int(hash_before[b"c"]) - 5_000
    assert hash_after[b"a"] == b"20"
    assert look(store).differences == []


def test_an_adjustment_made_while_the_store_was_away_is_counted_later(
    store: Redis, used: list[str], tenant: Tenant
) -> None:
    away = Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.1)
    made = make_adjustment(tenant, datetime.now(UTC).date(), 900, 0, "late fee", None, away)
    assert look(store).differences == []  # it may be on its way
    type(made).objects.update(made_at=F("made_at") - timedelta(minutes=1))

    assert figures(look(store, repair=True)) == {(Check.SPENT, "c", -900)}
    assert look(store).differences == []


def test_a_request_that_ran_twice_is_charged_once_and_the_rest_is_told_as_wasted(
    store: Redis, requests: Requests, tenant: Tenant, key: ApiKey
) -> None:
    request_id = requests.admit(tenant.pk, key.pk, prices=PRICES, limits=DAILY)
    requests.claim()
    requests.lose(request_id, made=6, delivered=4)
    requests.claim()
    requests.finish(request_id, Usage(18, 8, 9), attempt=1)
    settle(store)

    row = UsageRecord.objects.get()
    assert (row.completion_tokens, row.retry_attempt, row.cost_nano) == (9, 1, 10 * 1_000 + 8 * 100 + 9 * 2_000)
    assert store.hget(f"sl:made:{today()[1:]}", f"{MODEL}|wasted:engine_error") == b"2"
    assert look(store).differences == []


def test_what_was_set_aside_stays_open(store: Redis, used: list[str], tenant: Tenant) -> None:
    store.xadd(SET_ASIDE, ended(rid="r", tenant_id=tenant.pk + 1))

    store.xadd(SET_ASIDE, {"rid": "what is this"})

    found = look(store, repair=True).open
    assert [(one.what, one.found) for one in found if one.check is Check.SET_ASIDE] == [("r", 1), ("entries", 1)]


def test_requests_that_bear_no_price_are_noted(store: Redis, used: list[str]) -> None:
    UsageRecord.objects.update(price=None)
    price = Price.objects.create(
        model=MODEL, input_per_million=1, cached_input_per_million=1, output_per_million=1,
        valid_from=datetime.now(UTC) - timedelta(hours=1),
    )  # fmt: skip

    report = look(store)

    assert report.differences == []
    assert [f"3 requests to {MODEL}" in note and str(price.pk) in note for note in report.notes] == [True]


def test_only_one_reconciles_at_a_time(store: Redis, used: list[str]) -> None:
    store.set(LOCK, "another")

    with pytest.raises(Busy):
        look(store)
    assert store.get(LOCK) == b"another"


def test_one_tenant_alone_can_be_looked_at(store: Redis, used: list[str], tenant: Tenant) -> None:
    store.hincrby(f"sl:spent:t:{tenant.pk}:{today()}", "r", 1)

    assert look(store, tenant_ids=[tenant.pk + 1]).differences == []
    assert len(look(store, tenant_ids=[tenant.pk]).differences) == 1


@pytest.fixture
def configured(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataclasses.replace(settings.SLUICE, redis_url=valkey_url.removesuffix("/0"))
    monkeypatch.setattr(settings, "SLUICE", config)


def command(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("reconcile", *arguments, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def test_the_command_says_what_differs_and_ends_accordingly(
    store: Redis, used: list[str], tenant: Tenant, configured: None
) -> None:
    assert command() == (0, "1 tenants: 0 figures differ, 0 repaired; 1 settlements wait for their rows.\n")
    store.hincrby(f"sl:spent:t:{tenant.pk}:{today()}", "r", 2)

    status, text = command("--tenant", "acme")
    assert status == 1
    assert text.splitlines()[1].split()[-6:] == ["acme", today(), "r", "4", "6", "no"]

    status, text = command("--repair", "--json")
    assert status == 0
    assert [(one["what"], one["repaired"]) for one in json.loads(text)["differences"]] == [("r", True)]
    assert command()[0] == 0


def test_the_settlement_process_puts_right_by_itself(store: Redis, used: list[str], tenant: Tenant) -> None:
    whose = f"t:{tenant.pk}:{today()}"
    before = store.hget(f"sl:spent:{whose}", "i")
    _spend(store, whose, "i", 5)
    keeper = Keeper(store, 0.01)

    keeper.start()
    try:
        wait_until(lambda: store.hget(f"sl:spent:{whose}", "i") == before, 20)
    finally:
        keeper.stop()
        keeper._thread.join()


def test_it_is_silent_while_requests_come_and_go(
    store: Redis, valkey_url: str, requests: Requests, tenant: Tenant, key: ApiKey
) -> None:
    stop = threading.Event()

    def serve(model: str) -> int:
        with Redis.from_url(valkey_url) as own:
            mine, count = Requests(own), 0
            while not stop.is_set():
                mine.cancel(mine.admit(tenant.pk, key.pk, prices=PRICES, limits=DAILY, model=model))
                count += 1
            return count

    def keep_books() -> None:
        with Redis.from_url(valkey_url) as own:
            ledger = Ledger(own, "two")
            while not stop.is_set():
                ledger.step(b">")

    found: list[Difference] = []
    with ThreadPoolExecutor(3) as pool:
        serving = [pool.submit(_in_own_connection, serve, model) for model in ("m1", "m2")]
        keeping = pool.submit(_in_own_connection, keep_books)
        end = time.monotonic() + 3
        try:
            while time.monotonic() < end:
                found += look(store, repair=True).differences
        finally:
            stop.set()
        count = sum(one.result() for one in serving)
        keeping.result()

    assert found == []
    assert count > 100
    settle(store)
    assert look(store).differences == []
    assert UsageRecord.objects.count() == count


def _in_own_connection(work: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return work(*arguments)
    finally:
        connections.close_all()
