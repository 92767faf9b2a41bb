"""How a month goes: what was used of its budgets, and where the present pace leads."""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.db.models import Sum

from tenants.models import UsageRollup
from tenants.spent import adjusted

_LEAST_DAYS = 1.0
"""A pace over less than this says nothing about a month."""


class MonthSpent(NamedTuple):
    """What counts against the budgets of a month, corrections by hand included.

    Attributes:
        tokens: of prompts and answers, and of corrections.
        cost_nano: in billionths of the currency's unit, likewise.
        adjusted_tokens, adjusted_nano: the part of them that was corrected by hand.
    """

    requests: int
    tokens: int
    cost_nano: int
    adjusted_tokens: int
    adjusted_nano: int


def month_spent(tenant_id: int, month: date) -> MonthSpent:
    """What a tenant has used in the month (UTC) of a day."""
    start, end = month_bounds(month)
    days = UsageRollup.objects.filter(
        tenant_id=tenant_id, period=UsageRollup.Period.DAY, starts_at__gte=start, starts_at__lt=end
    )
    sums = days.aggregate(
        requests=Sum("requests", default=0),
        tokens=Sum("prompt_tokens", default=0) + Sum("completion_tokens", default=0),
        cost_nano=Sum("cost_nano", default=0),
    )
    nano, tokens = adjusted(tenant_id, month)
    return MonthSpent(sums["requests"], sums["tokens"] + tokens, sums["cost_nano"] + nano, tokens, nano)


def month_bounds(day: date) -> tuple[datetime, datetime]:
    """The first moments of the month of a day and of the next month, in UTC."""
    start = datetime(day.year, day.month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def forecast(used: int, now: datetime) -> int | None:
    """What the month will have used if it goes on at its average so far; None while it is too young to say."""
    passed = _days_passed(now)
    if passed < _LEAST_DAYS:
        return None
    return round(used * monthrange(now.year, now.month)[1] / passed)


def ends_on(used: int, budget: int, now: datetime) -> date | None:
    """The day on which the budget is used up at that pace; None if that is not in this month, or too early to say."""
    expected = forecast(used, now)
    if expected is None or expected < budget or used <= 0:
        return None
    days = budget * _days_passed(now) / used
    return (month_bounds(now)[0] + timedelta(days=days)).date()


def _days_passed(now: datetime) -> float:
    return (now - month_bounds(now)[0]) / timedelta(days=1)
