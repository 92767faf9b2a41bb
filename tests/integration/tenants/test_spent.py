"""Sums by hour and day, and what is read from them, against the rows themselves."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.limits import Level
from tenants.models import Adjustment, Plan, Tenant, UsageRecord, UsageRollup
from tenants.reconcile import mend_sums, wrong_sums
from tenants.spent import Spent, adjusted, spent
from tenants.usage import UsageRow, record_usage
from tests.integration.tenants.ends import ended
from workers.settlement.entry import usage_row

pytestmark = pytest.mark.django_db

MIDNIGHT = datetime(2030, 2, 28, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def row(tenant: int, key: int, minute: int, ran_s: int, tokens: int, outcome: str) -> UsageRow:
    """A request that was admitted ``minute`` minutes after midnight."""
    fields = {name.encode(): str(value).encode() for name, value in ended(tenant_id=tenant, key_id=key).items()}
    admitted = MIDNIGHT + timedelta(minutes=minute)
    used = {"prompt_tokens": 2 * tokens, "completion_tokens": tokens, "cost_nano": 3 * tokens, "outcome": outcome}
    return replace(usage_row(fields), admitted_at=admitted, finished_at=admitted + timedelta(seconds=ran_s), **used)


rows_of_days = st.lists(
    st.builds(
        row,
        st.integers(1, 2),
        st.integers(1, 2),
        st.integers(0, 3 * 24 * 60 - 1),
        st.integers(0, 7_200),
        st.integers(0, 10_000),
        st.sampled_from(["completed", "cancelled", "failed", "expired"]),
    ),
    min_size=1,
    max_size=25,
)
spans = st.tuples(st.integers(0, 72), st.integers(0, 72)).map(sorted)


def by_hand(rows: Sequence[UsageRow], start: datetime, end: datetime, before: datetime) -> Spent:
    counted = [one for one in rows if start <= one.admitted_at < end and one.finished_at < before]
    return Spent(
        len(counted),
        sum(one.prompt_tokens for one in counted),
        sum(one.completion_tokens for one in counted),
        sum(one.cost_nano for one in counted),
    )


@given(rows_of_days, spans, st.integers(0, 73 * 3600), st.integers(1, 24))
@example([row(1, 1, 60, 0, 5, "completed")], [1, 2], 3600, 1)  # on the hour, finished at that very moment
@hypothesis_settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
def test_sums_are_those_of_the_rows_however_they_are_told(
    db: None, rows: list[UsageRow], span: list[int], before_s: int, batch: int
) -> None:
    UsageRecord.objects.all().delete()
    UsageRollup.objects.all().delete()
    for at in range(0, len(rows), batch):
        record_usage(rows[max(0, at - 1) : at + batch])  # some are told twice

    assert wrong_sums((1, 2), MIDNIGHT) == []
    start, end, before = MIDNIGHT + span[0] * HOUR, MIDNIGHT + span[1] * HOUR, MIDNIGHT + timedelta(seconds=before_s)
    for owner in (1, 2):
        of_tenant = [one for one in rows if one.tenant_id == owner]
        assert spent(Level.TENANT, owner, start, end, before) == by_hand(of_tenant, start, end, before)
        of_key = [one for one in rows if one.key_id == owner]
        assert spent(Level.KEY, owner, start, end, before) == by_hand(of_key, start, end, before)


def test_a_request_belongs_to_the_hour_and_day_of_its_admission_in_utc() -> None:
    record_usage([row(1, 1, 24 * 60 - 1, 600, 5, "completed")])

    assert set(UsageRollup.objects.values_list("period", "starts_at", "requests", "completed", "failed")) == {
        ("h", MIDNIGHT + 23 * HOUR, 1, 1, 0),
        ("d", MIDNIGHT, 1, 1, 0),
    }


def test_bounds_that_no_sum_has_are_refused() -> None:
    with pytest.raises(ValueError, match="not on the hour"):
        spent(Level.TENANT, 1, MIDNIGHT + timedelta(minutes=1), MIDNIGHT + DAY, MIDNIGHT + DAY)


def test_who_used_nothing_has_spent_nothing() -> None:
    assert spent(Level.KEY, 9, MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + DAY) == Spent(0, 0, 0, 0)


def test_adjustments_add_up_by_month() -> None:
    plan = Plan.objects.create(name="gold")
    tenants = [Tenant.objects.create(slug=slug, name=slug, plan=plan) for slug in ("one", "two")]
    for tenant, month, cost_nano, tokens in (
        (tenants[0], date(2030, 2, 1), -500, 0),
        (tenants[0], date(2030, 2, 1), 200, 30),
        (tenants[0], date(2030, 3, 1), 9, 9),
        (tenants[1], date(2030, 2, 1), 7, 7),
    ):
        Adjustment.objects.create(tenant=tenant, month=month, cost_nano=cost_nano, tokens=tokens, reason="r")

    assert adjusted(tenants[0].pk, date(2030, 2, 17)) == (-300, 30)
    assert adjusted(tenants[1].pk, date(2030, 3, 1)) == (0, 0)


def test_usage_from_before_sums_were_kept_is_summed_up_once() -> None:
    rows = [row(tenant, key, 7 * tenant * key, 60, 11, "failed") for tenant in (1, 2) for key in (1, 2, 3)]
    record_usage(rows)
    UsageRollup.objects.all().delete()
    migration = importlib.import_module("tenants.migrations.0003_sums_of_earlier_usage")

    for _ in range(2):
        migration.sum_up_earlier_usage(apps, SimpleNamespace(connection=connection))

    assert wrong_sums((1, 2), MIDNIGHT) == []
    assert UsageRollup.objects.count() == 12


def test_sums_of_one_day_are_mended_and_those_of_others_left_alone() -> None:
    record_usage([row(1, 1, 10, 60, 5, "completed"), row(1, 1, 26 * 60, 60, 7, "completed")])
    UsageRollup.objects.filter(starts_at__lt=MIDNIGHT + DAY).update(prompt_tokens=1)
    wrong = wrong_sums((1,), MIDNIGHT)

    mend_sums(wrong)

    assert {one.group.starts_at for one in wrong} == {MIDNIGHT}
    assert wrong_sums((1,), MIDNIGHT) == []
