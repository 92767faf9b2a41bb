"""This month on a tenant's page: spent, budget, forecast, warnings."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from tenants.admin.figures import money, none_set, whole
from tenants.models import NANO, BudgetWarning, Plan, Tenant
from tenants.month import ends_on, forecast, month_bounds, month_spent

_WARNINGS = 10


def month_context(tenant: Tenant, now: datetime) -> dict[str, Any]:
    """What the template ``tenants/month.html`` shows."""
    plan, spent = tenant.plan, month_spent(tenant.pk, now.date())
    caps = {name: _nano(getattr(plan, name)) for name in ("cost_per_month", "cost_per_month_soft")}
    return {
        "name": f"{now:%Y-%m}",
        "requests": whole(spent.requests),
        "budgets": [
            _budget(_("Cost"), money, spent.cost_nano, caps["cost_per_month"], caps["cost_per_month_soft"], now),
            _budget(_("Tokens"), whole, spent.tokens, plan.tokens_per_month, plan.tokens_per_month_soft, now),
        ],
        "adjusted": _adjusted(spent.adjusted_nano, spent.adjusted_tokens),
        "warnings": [warning_line(row) for row in tenant.warnings.filter(month=month_bounds(now)[0])[:_WARNINGS]],
    }


def budget_of(plan: Plan) -> int | None:
    """The hard money budget of a month in billionths of the currency's unit; None if there is none."""
    return _nano(plan.cost_per_month)


def warning_line(row: BudgetWarning) -> dict[str, Any]:
    """One warning in words."""
    show = money if row.kind == BudgetWarning.Kind.COST else whole
    values = {"spent": show(row.spent), "limit": show(row.limit), "at": f"{row.at:%Y-%m-%d %H:%M}Z"}
    hard = row.bound == BudgetWarning.Bound.HARD
    text = _("Budget used up: %(spent)s of %(limit)s on %(at)s. Requests are refused until the next month.")
    soft = _("Warning line of %(limit)s passed: %(spent)s on %(at)s.")
    return {
        "text": (text if hard else soft) % values,
        "level": "bad" if hard else "warn",
        "failed": sorted(f"{channel}: {error}" for channel, error in row.told.items() if error),
    }


def _budget(
    title: str, show: Callable[[int], str], used: int, hard: int | None, soft: int | None, now: datetime
) -> dict[str, Any]:
    expected = forecast(used, now)
    ends = None if hard is None else ends_on(used, hard, now)
    return {
        "title": title,
        "used": show(used),
        "hard": none_set() if hard is None else show(hard),
        "soft": none_set() if soft is None else show(soft),
        "percent": None if hard is None else min(100, max(0, round(100 * used / hard))),
        "soft_percent": None if hard is None or soft is None else min(100, round(100 * soft / hard)),
        "forecast": _("too early to say") if expected is None else show(expected),
        "over": hard is not None and expected is not None and expected > hard,
        "full": hard is not None and used >= hard,
        "near": soft is not None and used >= soft,
        "ends": "" if ends is None or (hard is not None and used >= hard) else f"{ends:%Y-%m-%d}",
    }


def _adjusted(nano: int, tokens: int) -> str:
    parts = [money(nano)] * bool(nano) + [_("%(count)s tokens") % {"count": whole(tokens)}] * bool(tokens)
    return ", ".join(parts)


def _nano(amount: Any) -> int | None:
    return None if amount is None else int(amount * NANO)
