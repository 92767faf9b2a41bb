"""Which bounds of its month a tenant has reached."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Q, Sum

from tenants.models import NANO, Adjustment, BudgetWarning, Tenant, UsageRollup
from tenants.month import month_bounds

_SPENT_WHEN_REFUSED = Decimal("0.95")
"""Share of a budget beyond which a request that no longer fits means that it is used up, and not that it was large.

A budget seldom ends to the token: what is set aside for a request that would pass the bound is refused before.
"""

_CAPS = ("tokens_per_month_soft", "tokens_per_month", "cost_per_month_soft", "cost_per_month")
_HAS_BOUND = Q(*(Q(**{f"plan__{name}__isnull": False}) for name in _CAPS), _connector=Q.OR)

Refused = Collection[tuple[int, str]]
"""Tenants (by id) and kinds of budget for which a request was refused in the month."""


class Reached(NamedTuple):
    """A bound that is reached; amounts in tokens, or in billionths of the currency's unit."""

    kind: str
    bound: str
    spent: int
    limit: int


def warn(tenant_ids: Collection[int], month: date, now: datetime, refused: Refused = ()) -> None:
    """Write a warning for each bound of ``month`` that one of these tenants has reached, unless there is one.

    Args:
        tenant_ids: database ids; at most a thousand at once.
        month: its first day.
        now: the time of the warning, from which on it is due.
        refused: what its budget was too small for.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    caps = {
        tenant_id: values
        for tenant_id, *values in Tenant.objects.filter(_HAS_BOUND, pk__in=tenant_ids)
        .order_by()
        .values_list("pk", *(f"plan__{name}" for name in _CAPS))
    }
    if not caps:
        return
    spent = _spent(caps, month)
    known = set(BudgetWarning.objects.filter(tenant_id__in=caps, month=month).values_list("tenant_id", "kind", "bound"))
    BudgetWarning.objects.bulk_create(
        (
            BudgetWarning(tenant_id=tenant_id, month=month, at=now, **reached._asdict())
            for tenant_id, values in caps.items()
            for reached in reached_bounds(
                spent.get(tenant_id, (0, 0)), values, {kind for who, kind in refused if who == tenant_id}
            )
            if (tenant_id, reached.kind, reached.bound) not in known
        ),
        ignore_conflicts=True,  # another process has just written it
    )


def _spent(tenant_ids: Mapping[int, object], month: date) -> dict[int, tuple[int, int]]:
    """Tokens and cost of each in the month, corrections by hand included."""
    start, end = month_bounds(month)
    days = UsageRollup.objects.filter(
        tenant_id__in=tenant_ids, period=UsageRollup.Period.DAY, starts_at__gte=start, starts_at__lt=end
    )
    used = days.order_by().values_list("tenant_id").annotate(Sum("prompt_tokens"), Sum("completion_tokens"))
    corrections = Adjustment.objects.filter(tenant_id__in=tenant_ids, month=month)
    corrected = corrections.order_by().values_list("tenant_id").annotate(Sum("tokens"))
    sums: dict[int, tuple[int, int]] = {}
    for rows in (used.annotate(Sum("cost_nano")), corrected.annotate(Sum("cost_nano"))):
        for tenant_id, *tokens, cost in rows:
            before = sums.get(tenant_id, (0, 0))
            sums[tenant_id] = before[0] + sum(map(int, tokens)), before[1] + int(cost)
    return sums


def reached_bounds(
    spent: tuple[int, int], caps: Sequence[int | Decimal | None], refused: Collection[str]
) -> list[Reached]:
    """Compare tokens and cost in billionths with a plan's values of ``_CAPS``; ``refused`` names kinds of budget."""
    token_soft, token_hard, *costs = caps
    cost_soft, cost_hard = (None if cost is None else cost * NANO for cost in costs)
    found = []
    for kind, used, soft, hard in (
        (BudgetWarning.Kind.TOKENS, spent[0], token_soft, token_hard),
        (BudgetWarning.Kind.COST, spent[1], cost_soft, cost_hard),
    ):
        if soft is not None and used >= soft:
            found.append(Reached(kind.value, BudgetWarning.Bound.SOFT.value, used, int(soft)))
        if hard is not None and used >= hard * (_SPENT_WHEN_REFUSED if kind.value in refused else 1):
            found.append(Reached(kind.value, BudgetWarning.Bound.HARD.value, used, int(hard)))
    return found
