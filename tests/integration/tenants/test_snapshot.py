"""The snapshot of keys on a real database."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import pytest
from django.core import serializers
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from domain.limits import Level, Limit
from domain.qos import QosClass
from tenants.keys import make_key
from tenants.models import ApiKey, Plan, Price, SnapshotRevision, Tenant
from tenants.provision import create_key, ensure_demo_tenant, revoke_key, rotate_key
from tenants.snapshot import EMPTY, KeyRefused, Snapshot, SnapshotKeeper, load_snapshot
from tenants.snapshot_rows import KeyRow, TenantRow, Terms, TermsPool, pack_key

T = TypeVar("T")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def plan(db: None) -> Plan:
    return Plan.objects.create(name="gold", weight=2.5, requests_per_minute=60, best_class="p0", allowed_models=["m"])


@pytest.fixture
def tenant(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


def reason(snapshot: Snapshot, api_key: str, now: datetime = NOW) -> str:
    with pytest.raises(KeyRefused) as refused:
        snapshot.find(api_key, now)
    return refused.value.reason


def test_a_key_finds_its_tenant_and_plan(tenant: Tenant) -> None:
    key, text = create_key(tenant, "shop")

    found = load_snapshot().find(text, NOW)

    assert (found.tenant_id, found.tenant, found.key_id, found.key_prefix) == (tenant.pk, "acme", key.pk, key.prefix)
    assert (found.plan, found.weight, found.best_class) == ("gold", 2.5, QosClass.P0)
    assert found.limits == (Limit(Level.TENANT, "requests_per_minute", 60),)
    assert found.allowed_models == frozenset({"m"})
    assert found.cache_salt == tenant.cache_salt
    assert len(bytes.fromhex(found.cache_salt)) == 16


def test_a_plan_that_names_no_model_allows_all(tenant: Tenant) -> None:
    tenant.plan.allowed_models = []
    tenant.plan.save()
    _, text = create_key(tenant, "shop")

    assert load_snapshot().find(text, NOW).allowed_models is None


def test_a_key_brings_its_own_limits_scopes_and_addresses(tenant: Tenant) -> None:
    key, text = create_key(tenant, "shop")
    key.max_concurrent, key.cost_per_month = 3, Decimal("12.50")
    key.scopes, key.allowed_addresses = ["usage"], ["203.0.113.0/24"]
    key.save()

    found = load_snapshot().find(text, NOW)

    assert found.limits == (
        Limit(Level.TENANT, "requests_per_minute", 60),
        Limit(Level.KEY, "max_concurrent", 3),
        Limit(Level.KEY, "cost_per_month", 12_500_000_000),
    )
    assert (found.scopes, found.allowed_addresses) == (frozenset({"usage"}), ("203.0.113.0/24",))


def test_a_limit_that_is_taken_away_is_gone(tenant: Tenant) -> None:
    key, text = create_key(tenant, "shop")
    key.max_concurrent = 3
    key.save()
    before = load_snapshot()
    key.max_concurrent = None
    key.save()

    assert {limit.level for limit in load_snapshot(before).find(text, NOW).limits} == {Level.TENANT}


def test_a_rotated_key_is_as_narrow_as_the_one_before(tenant: Tenant) -> None:
    old, _ = create_key(tenant, "shop")
    old.max_concurrent, old.scopes, old.allowed_addresses = 3, ["usage"], ["203.0.113.0/24"]
    old.save()

    _, text = rotate_key(old, timedelta(0))

    found = load_snapshot().find(text, NOW)
    assert Limit(Level.KEY, "max_concurrent", 3) in found.limits
    assert (found.scopes, found.allowed_addresses) == (frozenset({"usage"}), ("203.0.113.0/24",))


def test_prices_in_force_are_of_the_model_and_exact(db: None) -> None:
    Price.objects.create(
        model="m",
        input_per_million=Decimal("1.234"),
        cached_input_per_million=Decimal("0.5"),
        output_per_million=Decimal("7"),
        valid_from=NOW,
    )

    snapshot = load_snapshot()

    (price,) = snapshot.prices_in_force("m", QosClass.P1, NOW)
    assert (price.input_nano, price.cached_nano, price.output_nano) == (1234, 500, 7000)
    assert snapshot.prices_in_force("m", QosClass.P1, NOW - timedelta(seconds=1)) == ()
    assert snapshot.prices_in_force("other", QosClass.P1, NOW) == ()


def test_a_price_that_is_added_is_seen_and_the_ones_before_stay(db: None) -> None:
    def add(version: str) -> None:
        zero = Decimal(0)
        Price.objects.create(
            model="m",
            model_version=version,
            input_per_million=zero,
            cached_input_per_million=zero,
            output_per_million=zero,
            valid_from=NOW,
        )

    add("")
    before = load_snapshot()
    add("1.2")

    versions = [row.model_version for row in load_snapshot(before).prices_in_force("m", QosClass.P1, NOW)]
    assert versions == ["1.2", ""]
    assert len(before.prices_in_force("m", QosClass.P1, NOW)) == 1


def test_the_text_of_a_key_is_stored_nowhere(tenant: Tenant) -> None:
    key, text = create_key(tenant, "shop")
    stored = serializers.serialize("json", ApiKey.objects.all())

    assert text not in stored
    assert text.rsplit("-", 1)[1] not in stored
    assert hashlib.sha256(text.encode()).hexdigest() == key.digest


def test_an_unknown_key_is_refused(tenant: Tenant) -> None:
    create_key(tenant, "shop")

    assert reason(load_snapshot(), make_key().plaintext) == "unknown"
    assert reason(load_snapshot(), "") == "unknown"
    assert reason(EMPTY, make_key().plaintext) == "unknown"


def test_a_revoked_key_is_refused(tenant: Tenant) -> None:
    key, text = create_key(tenant, "shop")
    revoke_key(key, NOW)

    assert reason(load_snapshot(), text) == "revoked"


def test_an_expired_key_is_refused_from_that_moment_on(tenant: Tenant) -> None:
    _, text = create_key(tenant, "shop", expires_at=NOW)
    snapshot = load_snapshot()

    assert snapshot.find(text, NOW - timedelta(seconds=1)).tenant == "acme"
    assert reason(snapshot, text) == "expired"


def test_a_key_of_a_disabled_tenant_is_refused(tenant: Tenant) -> None:
    _, text = create_key(tenant, "shop")
    tenant.active = False
    tenant.save()

    assert reason(load_snapshot(), text) == "disabled"


def test_a_rotated_key_works_until_its_grace_ends(tenant: Tenant) -> None:
    old, old_text = create_key(tenant, "shop")
    _, new_text = rotate_key(old, timedelta(hours=1))
    snapshot = load_snapshot()
    now = timezone.now()

    assert snapshot.find(new_text, now).tenant == "acme"
    assert snapshot.find(old_text, now).tenant == "acme"
    assert reason(snapshot, old_text, now + timedelta(hours=2)) == "revoked"


def test_an_earlier_revocation_is_not_put_off(tenant: Tenant) -> None:
    key, _ = create_key(tenant, "shop")
    revoke_key(key, NOW)
    revoke_key(key, NOW + timedelta(days=1))

    key.refresh_from_db()
    assert key.revoked_at == NOW


def test_an_unchanged_database_keeps_the_same_snapshot(tenant: Tenant) -> None:
    snapshot = load_snapshot()

    assert load_snapshot(snapshot) is snapshot


def switch_off(tenant: Tenant) -> None:
    tenant.active = False
    tenant.save()


CHANGES: dict[str, tuple[Callable[[Tenant, ApiKey], object], str]] = {
    "the tenant is saved": (lambda tenant, key: switch_off(tenant), "disabled"),
    "tenants are updated in bulk": (lambda tenant, key: Tenant.objects.update(active=False), "disabled"),
    "keys are updated in bulk": (
        lambda tenant, key: ApiKey.objects.filter(pk=key.pk).update(revoked_at=NOW),
        "revoked",
    ),
    "the key is deleted": (lambda tenant, key: key.delete(), "unknown"),
    "keys are deleted in bulk": (lambda tenant, key: ApiKey.objects.all().delete(), "unknown"),
    "the tenant is deleted with its keys": (lambda tenant, key: tenant.delete(), "unknown"),
    "tenants are deleted in bulk": (lambda tenant, key: Tenant.objects.filter(pk=tenant.pk).delete(), "unknown"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_when(name: str, tenant: Tenant) -> None:
    change, refused = CHANGES[name]
    key, text = create_key(tenant, "shop")
    before = load_snapshot()

    change(tenant, key)

    assert reason(load_snapshot(before), text) == refused
    assert before.find(text, NOW).tenant == "acme"  # what was handed out stays as it was


def test_keys_made_in_bulk_are_seen(tenant: Tenant) -> None:
    before = load_snapshot()
    new = make_key()

    ApiKey.objects.bulk_create([ApiKey(tenant=tenant, name="shop", prefix=new.prefix, digest=new.digest)])

    assert load_snapshot(before).find(new.plaintext, NOW).tenant == "acme"


def test_a_loaded_fixture_is_seen(tenant: Tenant) -> None:
    _, text = create_key(tenant, "shop")
    before = load_snapshot()
    tenant.active = False

    for row in serializers.deserialize("json", serializers.serialize("json", [tenant])):
        row.save()

    assert reason(load_snapshot(before), text) == "disabled"


def test_a_changed_plan_is_seen_by_its_tenants(tenant: Tenant) -> None:
    _, text = create_key(tenant, "shop")
    before = load_snapshot()

    Plan.objects.bulk_update([Plan(pk=tenant.plan_id, weight=9.0)], ["weight"])

    assert load_snapshot(before).find(text, NOW).weight == 9.0


def test_only_changed_rows_are_read_again(tenant: Tenant) -> None:
    _, text = create_key(tenant, "shop")
    before = load_snapshot()
    QuerySet(ApiKey).update(prefix="unseen")  # past the counter, so nobody is told
    create_key(tenant, "another")

    after = load_snapshot(before)

    assert len(after.keys) == 2
    assert after.find(text, NOW).key_prefix != "unseen"
    assert load_snapshot().find(text, NOW).key_prefix == "unseen"


@pytest.mark.parametrize("slug", ["acme", "a" * 63, "ünïcode"])
@pytest.mark.parametrize("salt", ["0" * 32, "not hex", ""])
def test_a_packed_tenant_comes_out_as_it_went_in(slug: str, salt: str) -> None:
    row = TenantRow(slug, 2**40, True, salt)

    assert TenantRow.unpack(row.pack()) == row


def test_a_packed_key_comes_out_as_it_went_in() -> None:
    pool = TermsPool()
    late = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    own = Terms(frozenset({"usage"}), ("203.0.113.0/24",), (Limit(Level.KEY, "max_concurrent", 3),))
    rows = [
        KeyRow(1, 2, "abcdefgh", None, None, frozenset(), (), ()),
        KeyRow(2**40, 2**41, "", datetime(1, 1, 1, tzinfo=UTC), late, *own),
        KeyRow(3, 2, "ü", datetime(1970, 1, 1, tzinfo=UTC), None, *own),
    ]

    packed = [pack_key(*row[:5], pool.number(Terms(*row[5:]))) for row in rows]

    assert [pool.unpack(one) for one in packed] == rows


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_rolled_back_is_not_counted() -> None:
    plan = Plan.objects.create(name="gold")
    number = SnapshotRevision.objects.get().number

    with transaction.atomic():
        Tenant.objects.create(slug="acme", name="Acme", plan=plan)
        transaction.set_rollback(True)

    assert SnapshotRevision.objects.get().number == number


def test_loading_takes_the_same_few_queries_however_many_keys(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(20):
        create_key(tenant, f"key {number}")

    with django_assert_num_queries(6):
        load_snapshot()


def test_the_demo_tenant_is_made_once(db: None) -> None:
    secret = make_key().plaintext

    ensure_demo_tenant(secret)
    ensure_demo_tenant(secret)

    assert ApiKey.objects.count() == 1
    found = load_snapshot().find(secret, NOW)
    assert (found.tenant, found.best_class) == ("demo", QosClass.P0)
    assert "max_concurrent" in {limit.name for limit in found.limits}


@pytest.fixture
async def keeper(transactional_db: None) -> AsyncIterator[SnapshotKeeper]:
    keeper = SnapshotKeeper(poll_ms=20)
    await keeper.start()
    yield keeper
    await keeper.stop()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def _make(slug: str) -> str:
    plan, _ = Plan.objects.get_or_create(name="gold")
    return create_key(Tenant.objects.create(slug=slug, name=slug, plan=plan), "shop")[1]


async def test_a_running_keeper_follows_changes(keeper: SnapshotKeeper) -> None:
    text = await asyncio.to_thread(_in_own_connection, lambda: _make("acme"))
    await until(lambda: len(keeper.current.keys) == 1)
    assert keeper.current.find(text, NOW).tenant == "acme"

    await asyncio.to_thread(_in_own_connection, lambda: Tenant.objects.update(active=False))
    await until(lambda: not next(iter(keeper.current.tenants.values())).active)
    assert reason(keeper.current, text) == "disabled"


async def test_without_a_database_the_last_snapshot_stays_and_strangers_stay_out(
    keeper: SnapshotKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    text = await asyncio.to_thread(_in_own_connection, lambda: _make("acme"))
    await until(lambda: len(keeper.current.keys) == 1)

    await asyncio.to_thread(_in_own_connection, lambda: _rename("tenants_snapshotrevision", "gone"))
    await until(lambda: "stale" in caplog.text)
    assert keeper.current.find(text, NOW).tenant == "acme"
    assert reason(keeper.current, make_key().plaintext) == "unknown"

    await asyncio.to_thread(_in_own_connection, lambda: _rename("gone", "tenants_snapshotrevision"))
    later = await asyncio.to_thread(_in_own_connection, lambda: _make("later"))
    await until(lambda: len(keeper.current.keys) == 2)
    assert keeper.current.find(later, NOW).tenant == "later"


def _in_own_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()


def _rename(table: str, to: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")
