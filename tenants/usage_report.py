"""A tenant's usage as it may see it itself: sums by time and by what it asks for, and its budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from django.db.models import F, Sum
from django.db.models.functions import TruncMonth

from tenants.models import NANO, ApiKey, Tenant, UsageRollup
from tenants.month import month_bounds, month_spent

Bucket = Literal["hour", "day", "month"]
Group = Literal["model", "key", "class"]

MAX_ROWS = 10_000
"""More are not read: nobody looks at them, and they would keep a thread and memory busy."""

_COLUMNS: Mapping[Group, str] = {"model": "model", "key": "key_id", "class": "qos_class"}
_SUMS = ("requests", "completed", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano")


class TooManyRows(Exception):
    """The answer would have more than ``MAX_ROWS`` rows."""


class KeyName(NamedTuple):
    """How a person knows a key; both empty for one that was deleted."""

    name: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Used:
    """One bucket of one group; what is not grouped by is None. Cost in billionths of the currency's unit."""

    starts_at: datetime
    model: str | None
    key_id: int | None
    qos_class: str | None
    requests: int
    completed: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_nano: int


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget of a month: where warnings begin, where refusals do, and what is spent; None for no bound."""

    soft: int | None
    hard: int | None
    spent: int


@dataclass(frozen=True, slots=True)
class Month:
    """The month under way: tokens, and cost in billionths of the currency's unit; adjustments by hand are included."""

    starts_at: datetime
    ends_at: datetime
    tokens: Budget
    cost: Budget


def read_usage(tenant_id: int, start: datetime, end: datetime, bucket: Bucket, groups: Sequence[Group]) -> list[Used]:
    """Sum up what a tenant's requests that were admitted in [``start``, ``end``) used; empty buckets are left out.

    Args:
        tenant_id: of the tenant.
        start: aware, at the beginning of a bucket (UTC), as is ``end``.
        end: the first moment that does not count.
        bucket: how long each is.
        groups: by what else to tell the sums apart.

    Raises:
        TooManyRows: ask for less.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    period = UsageRollup.Period.HOUR if bucket == "hour" else UsageRollup.Period.DAY
    rows = UsageRollup.objects.filter(tenant_id=tenant_id, period=period, starts_at__gte=start, starts_at__lt=end)
    columns = [_COLUMNS[group] for group in groups]
    begins = TruncMonth("starts_at", tzinfo=UTC) if bucket == "month" else F("starts_at")
    sums = (
        rows.order_by()
        .annotate(begins=begins)
        .values("begins", *columns)
        .annotate(**{f"all_{name}": Sum(name) for name in _SUMS})
        .order_by("begins", *columns)
    )
    found = list(sums[: MAX_ROWS + 1])
    if len(found) > MAX_ROWS:
        raise TooManyRows
    return [_used(row) for row in found]


def _used(row: Mapping[str, Any]) -> Used:
    return Used(
        row["begins"],
        row.get("model"),
        row.get("key_id"),
        row.get("qos_class"),
        *(int(row[f"all_{name}"]) for name in _SUMS),
    )


def key_names(tenant_id: int) -> dict[int, KeyName]:
    """Name the keys of a tenant, by id."""
    rows = ApiKey.objects.filter(tenant_id=tenant_id).order_by().values_list("pk", "name", "prefix")
    return {pk: KeyName(name, prefix) for pk, name, prefix in rows}


def read_month(tenant_id: int, now: datetime) -> Month:
    """How much of its budgets a tenant has spent in the month of ``now`` (aware), as far as it is settled.

    Raises:
        tenants.models.Tenant.DoesNotExist: it was deleted.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    start, end = month_bounds(now.astimezone(UTC).date())
    names = ("tokens_per_month_soft", "tokens_per_month", "cost_per_month_soft", "cost_per_month")
    bounds = Tenant.objects.values_list(*(f"plan__{name}" for name in names)).get(pk=tenant_id)
    tokens_soft, tokens_hard, cost_soft, cost_hard = bounds
    spent = month_spent(tenant_id, start.date())
    return Month(
        start,
        end,
        Budget(tokens_soft, tokens_hard, spent.tokens),
        Budget(_nano(cost_soft), _nano(cost_hard), spent.cost_nano),
    )


def _nano(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount * NANO)
