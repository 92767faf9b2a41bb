"""Recording usage on a real database."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connections

from tenants.models import Plan, Tenant, UsageRecord
from tenants.provision import create_key
from tenants.usage import UsageRow, record_usage

THEN = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def make_row(tenant_id: int = 1, key_id: int = 1) -> UsageRow:
    return UsageRow(
        request_id=str(uuid.uuid4()),
        tenant_id=tenant_id,
        key_id=key_id,
        model="smollm2-135m-instruct",
        model_version="1.0.0+abc",
        qos_class="p1",
        endpoint="chat",
        stream=True,
        outcome="completed",
        status=200,
        error_code="",
        prompt_tokens=12,
        cached_tokens=4,
        completion_tokens=7,
        cost_nano=1_500,
        price_id=None,
        retry_attempt=1,
        rollback_cause="worker_lost",
        batch_id="b-1",
        worker_id="w-1",
        gateway_id="g-1",
        admitted_at=THEN,
        claimed_at=None,
        first_token_at=THEN,
        finished_at=THEN,
    )


@pytest.mark.django_db
def test_a_row_is_stored_as_told() -> None:
    plan = Plan.objects.create(name="gold")
    tenant = Tenant.objects.create(slug="acme", name="Acme", plan=plan)
    row = make_row(tenant.pk, create_key(tenant, "shop")[0].pk)

    assert len(record_usage([row])) == 1

    stored = UsageRecord.objects.get()
    assert {name: getattr(stored, name) for name in asdict(row)} == asdict(row)
    assert stored.tenant == tenant


@pytest.mark.django_db
def test_a_row_told_again_changes_nothing() -> None:
    row = make_row()
    record_usage([row])

    assert len(record_usage([replace(row, completion_tokens=99)])) == 0
    assert UsageRecord.objects.get().completion_tokens == 7


@pytest.mark.django_db
def test_only_new_rows_are_counted() -> None:
    first, second = make_row(), make_row()
    record_usage([first])

    assert len(record_usage([first, second, second])) == 1
    assert UsageRecord.objects.count() == 2


@pytest.mark.django_db
def test_no_rows_are_no_work() -> None:
    assert len(record_usage([])) == 0


@pytest.mark.django_db
def test_many_rows_fit() -> None:
    assert len(record_usage([make_row() for _ in range(1_234)])) == 1_234


@pytest.mark.django_db
def test_usage_of_a_deleted_tenant_is_still_recorded() -> None:
    assert len(record_usage([make_row(tenant_id=987_654, key_id=987_654)])) == 1


@pytest.mark.django_db(transaction=True)
def test_rows_told_by_many_at_once_are_stored_once() -> None:
    rows = [make_row() for _ in range(60)]

    def tell(_: int) -> int:
        try:
            return sum(len(record_usage(rows[start : start + 20])) for start in range(0, 60, 20))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(tell, range(8))) == 60
    assert UsageRecord.objects.count() == 60


@pytest.mark.django_db(transaction=True)
def test_recording_works_again_after_the_database_failed() -> None:
    connection = connections["default"]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tenants_usagerecord RENAME TO gone")
    try:
        with pytest.raises(DatabaseError):
            record_usage([make_row()])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE gone RENAME TO tenants_usagerecord")

    assert len(record_usage([make_row()])) == 1
