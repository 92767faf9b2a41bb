"""The database's side of the reconciliation: sums against rows, and what the rows say to others."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncHour

from domain.outcome import Outcome
from tenants.models import Price, UsageRecord, UsageRollup
from tenants.one_moment import one_moment
from tenants.rollup import COUNTED_AS_FAILED, Group, Sums, add_sums, periods_of

_DAY = timedelta(days=1)
_NEW_PRICE = timedelta(seconds=5)
"""A price applies from some moment on, but gateways learn of it a moment after it was written."""

_ROW_SUMS = {
    "requests": Count("id"),
    "completed": Count("id", filter=Q(outcome=Outcome.COMPLETED.value)),
    "failed": Count("id", filter=Q(outcome__in=[outcome.value for outcome in COUNTED_AS_FAILED])),
    "prompt": Sum("prompt_tokens"),
    "cached": Sum("cached_tokens"),
    "completion": Sum("completion_tokens"),
    "cost": Sum("cost_nano"),
}


class WrongSum(NamedTuple):
    """A sum that is not that of its rows."""

    group: Group
    expected: Sums
    found: Sums


class Billed(NamedTuple):
    """What the rows of one model say."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


class Unpriced(NamedTuple):
    """Requests that cost nothing though the price list has a price for them."""

    model: str
    price_id: int
    requests: int


def tenants_with_usage(since: datetime) -> set[int]:
    """Return the ids of those that have rows or sums from ``since`` on."""
    sums = UsageRollup.objects.filter(period=UsageRollup.Period.DAY, starts_at__gte=since)
    rows = UsageRecord.objects.filter(finished_at__gte=since)
    return {
        tenant_id
        for query in (sums, rows)
        for (tenant_id,) in query.order_by().values_list("tenant_id").distinct().iterator()
    }


def wrong_sums(tenant_ids: Collection[int], since: datetime) -> list[WrongSum]:
    """Compare the sums of these tenants with their rows, from the day of ``since`` on, as of one moment."""
    start = periods_of(since)[1][1]
    with one_moment():
        expected = _sums_of_rows(Q(tenant_id__in=tenant_ids, admitted_at__gte=start))
        rollups = UsageRollup.objects.filter(tenant_id__in=tenant_ids, starts_at__gte=start).order_by()
        found = {
            Group(*values[:6]): Sums(*values[6:])
            for values in rollups.values_list(*Group._fields, *Sums._fields).iterator()
        }
    return [
        WrongSum(group, expected.get(group, Sums()), found.get(group, Sums()))
        for group in sorted(expected.keys() | found.keys())
        if expected.get(group) != found.get(group)
    ]


def _sums_of_rows(which: Q) -> dict[Group, Sums]:
    rows = (
        UsageRecord.objects.filter(which)
        .order_by()
        .values("tenant_id", "key_id", "model", "qos_class", hour=TruncHour("admitted_at"))
        .annotate(**_ROW_SUMS)
        .values_list("tenant_id", "key_id", "model", "qos_class", "hour", *_ROW_SUMS)
    )
    found: dict[Group, Sums] = defaultdict(Sums)
    for tenant_id, key_id, model, qos_class, hour, *values in rows.iterator():
        sums = Sums(*map(int, values))
        for period, starts_at in periods_of(hour):
            group = Group(tenant_id, str(period), starts_at, key_id, model, qos_class)
            found[group] = found[group].plus(sums)
    return dict(found)


def mend_sums(wrong: Iterable[WrongSum]) -> None:
    """Make these sums those of their rows. What is written meanwhile waits a moment and is then added to them.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    groups: dict[tuple[int, datetime], list[Group]] = defaultdict(list)
    for group in sorted(one.group for one in wrong):
        groups[group.tenant_id, periods_of(group.starts_at)[1][1]].append(group)
    for (tenant_id, day), of_day in groups.items():
        with transaction.atomic():
            add_sums(dict.fromkeys(of_day, Sums()))  # adds nothing, but takes them from whoever would write them now
            right = _sums_of_rows(Q(tenant_id=tenant_id, admitted_at__gte=day, admitted_at__lt=day + _DAY))
            for group in of_day:
                _replace(group, right.get(group))


def _replace(group: Group, sums: Sums | None) -> None:
    rollup = UsageRollup.objects.filter(**group._asdict())
    if sums is None:
        rollup.delete()
    else:
        rollup.update(**sums._asdict())


def recorded(request_ids: Collection[str]) -> dict[str, datetime]:
    """Of these requests, those that have a row, and when each finished."""
    found: dict[str, datetime] = {}
    ordered = sorted(request_ids)
    for start in range(0, len(ordered), 1_000):
        rows = UsageRecord.objects.filter(request_id__in=ordered[start : start + 1_000]).order_by()
        found |= dict(rows.values_list("request_id", "finished_at"))
    return found


def billed(start: datetime, end: datetime) -> dict[str, Billed]:
    """Sum up by model what finished in [``start``, ``end``)."""
    rows = UsageRecord.objects.filter(finished_at__gte=start, finished_at__lt=end).order_by()
    sums = rows.values("model").annotate(
        r=Count("id"), p=Sum("prompt_tokens"), h=Sum("cached_tokens"), c=Sum("completion_tokens")
    )
    return {model: Billed(*map(int, values)) for model, *values in sums.values_list("model", "r", "p", "h", "c")}


def unpriced(since: datetime) -> list[Unpriced]:
    """Find requests that finished from ``since`` on and bear no price though one was in force at their admission."""
    found = []
    free = UsageRecord.objects.filter(finished_at__gte=since, price=None).exclude(prompt_tokens=0, completion_tokens=0)
    for price in Price.objects.order_by("pk"):
        rows = free.filter(
            model=price.model,
            model_version__startswith=price.model_version,
            admitted_at__gte=price.valid_from + _NEW_PRICE,
        )
        count = (rows.filter(qos_class=price.qos_class) if price.qos_class else rows).count()
        if count:
            found.append(Unpriced(price.model, price.pk, count))
    return found
