"""What a tenant or a key has used in a day or month, as the database knows it."""

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Model, Q, QuerySet, Sum

from domain.limits import Level
from tenants.models import Adjustment, UsageRecord, UsageRollup

_DAY = timedelta(days=1)
_WHOSE = {Level.TENANT: "tenant_id", Level.KEY: "key_id"}


class Spent(NamedTuple):
    """What requests used: how many, their prompt and answer tokens, and billionths of the currency's unit."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0


def spent(level: Level, id: int, start: datetime, end: datetime, finished_before: datetime) -> Spent:  # noqa: A002
    """Sum up what was admitted in [``start``, ``end``) and finished before ``finished_before``.

    Takes the sums by day and hour, less the rows that finished later: one statement, so both are of one moment. Rows
    that finished later are few, since ``finished_before`` is the present or a moment ago wherever this is asked.

    Args:
        level: whom ``id``, the database's, stands for: a tenant or a key.
        start: aware, on the hour, as is ``end``.
        end: the first moment that does not count.
        finished_before: aware.

    Raises:
        ValueError: ``start`` or ``end`` is not on the hour.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    return spent_by(level, (id,), start, end, finished_before).get(id, Spent())


def spent_by(
    level: Level, ids: Collection[int], start: datetime, end: datetime, finished_before: datetime
) -> dict[int, Spent]:
    """The same for many at once; those that used nothing are left out. See :func:`spent`."""
    column = _WHOSE[level]
    whose = {f"{column}__in": ids}
    admitted = UsageRollup.objects.filter(whole_periods(start, end), **whose)
    later = UsageRecord.objects.filter(
        finished_at__gte=finished_before, admitted_at__gte=start, admitted_at__lt=end, **whose
    )
    parts = _sums(admitted, column, Sum("requests"), 1).union(_sums(later, column, Count("pk"), -1), all=True)
    found: dict[int, Spent] = {}
    for owner, *more in parts:
        sums = found.get(owner, Spent())
        found[owner] = Spent(*(int(one) + int(other) for one, other in zip(sums, more, strict=True)))
    return found


def adjusted(tenant_id: int, month: date) -> tuple[int, int]:
    """Sum up what was adjusted by hand in the month of a day: billionths of the currency's unit, and tokens."""
    return adjusted_by((tenant_id,), month).get(tenant_id, (0, 0))


def adjusted_by(tenant_ids: Collection[int], month: date) -> dict[int, tuple[int, int]]:
    """The same for many tenants at once; those without adjustments are left out."""
    rows = Adjustment.objects.filter(tenant_id__in=tenant_ids, month=month.replace(day=1)).order_by()
    sums = rows.values("tenant_id").annotate(c=Sum("cost_nano"), t=Sum("tokens")).values_list("tenant_id", "c", "t")
    return {tenant_id: (int(cost_nano), int(tokens)) for tenant_id, cost_nano, tokens in sums}


def whole_periods(start: datetime, end: datetime) -> Q:
    """Choose the fewest sums that cover [``start``, ``end``) exactly: whole days, and hours before and after them.

    Raises:
        ValueError: a bound is not on the hour.
    """
    for bound in (start, end):
        if (bound.minute, bound.second, bound.microsecond) != (0, 0, 0):
            raise ValueError(f"{bound} is not on the hour, and sums are kept by hour and day.")
    first, last = _midnight(start + _DAY - timedelta(microseconds=1)), _midnight(end)
    if first >= last:
        return _sums_in(UsageRollup.Period.HOUR, start, end)
    chosen = _sums_in(UsageRollup.Period.DAY, first, last)
    if start < first:
        chosen |= _sums_in(UsageRollup.Period.HOUR, start, first)
    if last < end:
        chosen |= _sums_in(UsageRollup.Period.HOUR, last, end)
    return chosen


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _sums_in(period: str, start: datetime, end: datetime) -> Q:
    return Q(period=period, starts_at__gte=start, starts_at__lt=end)


def _sums(rows: QuerySet[Model], group: str, requests: Any, sign: int) -> QuerySet[Any, Any]:
    sums: QuerySet[Any, Any] = (
        rows.order_by()
        .values(group)
        .annotate(
            r=requests * sign,
            i=Sum("prompt_tokens") * sign,
            o=Sum("completion_tokens") * sign,
            c=Sum("cost_nano") * sign,
        )
        .values_list(group, "r", "i", "o", "c")
    )
    return sums
