"""What other limits of a plan would have done to its tenants, as far as the sums of usage tell.

The sums are by hour and day and of what was admitted. So days and months are known exactly; of minutes it is known
only that an hour took more than sixty of them allow; of what ran at once nothing is known.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Max, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from domain.limits import KINDS, Amount, Span
from tenants.models import Adjustment, Plan, Tenant, UsageRollup
from tenants.month import month_bounds

HOURS_LOOKED_AT = 24
DAYS_LOOKED_AT = 7
_NAMED = 5
_MINUTES = 60

_TAKEN = {
    Amount.REQUESTS: F("requests"),
    Amount.INPUT: F("prompt_tokens"),
    Amount.OUTPUT: F("completion_tokens"),
    Amount.TOKENS: F("prompt_tokens") + F("completion_tokens"),
    Amount.COST: F("cost_nano"),
}


class Over(NamedTuple):
    """What one cap meets.

    Attributes:
        tenants: how many went over it in some hour, day or month that is looked at.
        periods: how many of their hours, days or months were over it.
        excess: by how much in all: that much would not have been admitted.
        now: how many are over it in the present day or month; 0 for limits of a minute.
    """

    tenants: int
    periods: int
    excess: int
    now: int


class Peak(NamedTuple):
    """What one tenant took in one hour, day or month."""

    tenant: Tenant
    starts_at: datetime
    taken: int


@dataclass(frozen=True, slots=True)
class Effect:
    """One limit before and after.

    Attributes:
        name: one of ``domain.limits.KINDS``.
        old, new: what each cap meets; None for no cap.
        peak: the most that a tenant took in one period; None if nobody took anything.
        over: of each tenant over the new cap its worst period, the worst tenants first.
    """

    name: str
    old: Over | None
    new: Over | None
    peak: Peak | None
    over: list[Peak]


def effect_of(plan: Plan, name: str, old: int | None, new: int | None, now: datetime) -> Effect | None:
    """What ``name`` would have done with the cap ``new`` in place of ``old``; None where no sums tell.

    Looks at the last 24 hours for minutes, at seven days for days, at this month (UTC) for months.

    Args:
        plan: its present tenants are looked at.
        old, new: caps, cost in billionths of the currency's unit; None for none.
    """
    kind = KINDS[name]
    if kind.span is Span.AT_ONCE:
        return None
    factor = _MINUTES if kind.span is Span.MINUTE else 1
    totals = _totals(plan, kind.amount, kind.span, now)
    present = None if kind.span is Span.MINUTE else _present(kind.span, now)
    met = [None if cap is None else _over(totals, cap * factor, present) for cap in (old, new)]
    peak = _peaks(totals, 1)
    over = [] if new is None or not met[1] or not met[1].tenants else _worst(totals.filter(total__gt=new * factor))
    return Effect(name, met[0], met[1], peak[0] if peak else None, over)


def requests_by_model(plan: Plan, now: datetime) -> dict[str, int]:
    """Requests of the last seven days by model, the most asked first."""
    return _requests(plan, "model", now)


def requests_by_class(plan: Plan, now: datetime) -> dict[str, int]:
    """Requests of the last seven days by class."""
    return _requests(plan, "qos_class", now)


def _requests(plan: Plan, by: str, now: datetime) -> dict[str, int]:
    rows = _rows(plan, UsageRollup.Period.DAY, _since_day(now)).order_by()
    found = rows.values_list(by).annotate(found=Sum("requests")).order_by("-found")
    return dict(found)


def _totals(plan: Plan, amount: Amount, span: Span, now: datetime) -> "QuerySet[Any, Any]":
    """Rows of ``tenant_id``, ``begins`` and the ``total`` that was taken in the period that begins then."""
    if span is Span.MONTH:
        return _months(plan, amount, now)
    if span is Span.MINUTE:
        hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        rows = _rows(plan, UsageRollup.Period.HOUR, hour - timedelta(hours=HOURS_LOOKED_AT - 1))
    else:
        rows = _rows(plan, UsageRollup.Period.DAY, _since_day(now))
    return rows.order_by().values("tenant_id", begins=F("starts_at")).annotate(total=_sum(amount))


def _months(plan: Plan, amount: Amount, now: datetime) -> "QuerySet[Any, Any]":
    start, end = month_bounds(now)
    corrected = Adjustment.objects.filter(tenant=OuterRef("tenant_id"), month=start.date()).order_by().values("tenant")
    by_hand = corrected.annotate(found=Sum("cost_nano" if amount is Amount.COST else "tokens")).values("found")
    rows = _rows(plan, UsageRollup.Period.DAY, start).filter(starts_at__lt=end).order_by().values("tenant_id")
    return rows.annotate(
        begins=Max("starts_at"),
        total=ExpressionWrapper(_sum(amount) + Coalesce(Subquery(by_hand), 0), output_field=BigIntegerField()),
    )


def _sum(amount: Amount) -> Sum:
    # Big by name: what Django infers for a sum of two columns is compared as 32 bits on Postgres.
    return Sum(_TAKEN[amount], output_field=BigIntegerField())


def _rows(plan: Plan, period: str, since: datetime) -> "QuerySet[UsageRollup]":
    return UsageRollup.objects.filter(period=period, starts_at__gte=since, tenant__plan=plan)


def _since_day(now: datetime) -> datetime:
    return _present(Span.DAY, now) - timedelta(days=DAYS_LOOKED_AT - 1)


def _present(span: Span, now: datetime) -> datetime:
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if span is Span.DAY else midnight.replace(day=1)


def _over(totals: "QuerySet[Any, Any]", cap: int, present: datetime | None) -> Over:
    over = totals.filter(total__gt=cap)
    found = over.aggregate(
        tenants=Count("tenant_id", distinct=True), periods=Count("tenant_id"), taken=Sum("total", default=0)
    )
    now = 0
    if present is not None:
        now = over.filter(begins__gte=present).aggregate(tenants=Count("tenant_id", distinct=True))["tenants"]
    return Over(found["tenants"], found["periods"], int(found["taken"]) - cap * found["periods"], now)


def _peaks(totals: "QuerySet[Any, Any]", count: int) -> list[Peak]:
    rows = list(totals.order_by("-total", "tenant_id")[:count])
    tenants = Tenant.objects.in_bulk([row["tenant_id"] for row in rows])
    return [Peak(tenants[row["tenant_id"]], row["begins"], int(row["total"])) for row in rows if row["total"]]


def _worst(over: "QuerySet[Any, Any]") -> list[Peak]:
    # A tenant can have each of its periods among the worst: enough are read that others come up too.
    worst: dict[int, Peak] = {}
    for peak in _peaks(over, _NAMED * DAYS_LOOKED_AT):
        worst.setdefault(peak.tenant.pk, peak)
    return list(worst.values())[:_NAMED]
