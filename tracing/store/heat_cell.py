"""What is behind one cell of the heat map: its requests, read from a bounded number of rows."""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from django.db.models import Max, Min, QuerySet, Sum

from domain.trace.attribution import percentile
from domain.trace.buckets import BOUNDS_MS, BUCKETS
from tracing.models import RequestSum, StoredRequest
from tracing.store.heat import Span, sums_of
from tracing.store.newest import newest

LATEST = 5_000
"""Requests from which an instance's figures are made."""

NEWEST = 50
"""Requests that are shown one by one."""

SCANNED = 50_000
"""Rows that are looked at for those of one cell."""

_Row = TypeVar("_Row", RequestSum, StoredRequest)
_TIME = {RequestSum.Measure.TTFT: "ttft_us", RequestSum.Measure.DURATION: "duration_us"}


@dataclass(frozen=True, slots=True)
class Cell:
    """Which requests.

    Attributes:
        span: when they began.
        measure: which of their times is looked at.
        buckets: from the first to the last of these it fell.
        tenant: theirs; None for everybody's.
        without: tenants that are left out.
        model: which they asked; "" for any.
    """

    span: Span
    measure: RequestSum.Measure
    buckets: tuple[int, int] = (0, BUCKETS - 1)
    tenant: str | None = None
    without: tuple[str, ...] = ()
    model: str = ""


class Counted(NamedTuple):
    """What the sums say: when such requests began, from ``since_us`` on and before ``until_us``."""

    requests: int
    errors: int
    since_us: int
    until_us: int


class Instance(NamedTuple):
    """What one worker did; "" stands for requests that none ran."""

    worker_id: str
    requests: int
    errors: int
    p50_ms: float
    p95_ms: float


class Behind(NamedTuple):
    """All of it: the busiest instance first, the newest request first.

    Attributes:
        counted: by the sums.
        looked_at: requests from which ``instances`` is made; fewer than counted where there are too many, or where the
            oldest are kept no more.
        instances: by worker.
        newest: single requests, without their bytes.
    """

    counted: Counted
    looked_at: int
    instances: list[Instance]
    newest: list[StoredRequest]


def read_cell(cell: Cell) -> Behind:
    """Read what is behind a cell.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    counted = count_cell(cell)
    if not counted.requests:
        return Behind(counted, 0, [], [])
    rows = _rows(cell, counted)
    found = list(rows.values_list("worker_id", "status", _TIME[cell.measure])[:LATEST])
    return Behind(counted, len(found), _instances(found), list(rows.defer("lengths", "moments")[:NEWEST]))


def count_cell(cell: Cell) -> Counted:
    """Ask the sums how many there are and when they began, so that few rows need be looked at."""
    found = _whose(sums_of(cell.span, cell.measure), cell).filter(bucket__range=cell.buckets)
    told = found.aggregate(Sum("requests"), Sum("errors"), Min("starts_us"), Max("starts_us"))
    if not told["requests__sum"]:
        return Counted(0, 0, cell.span.since_us, cell.span.until_us)
    until_us = told["starts_us__max"] + cell.span.unit_us
    return Counted(told["requests__sum"], told["errors__sum"], told["starts_us__min"], until_us)


def _whose(query: "QuerySet[_Row]", cell: Cell) -> "QuerySet[_Row]":
    if cell.tenant is not None:
        query = query.filter(tenant=cell.tenant)
    if cell.without:
        query = query.exclude(tenant__in=cell.without)
    return query.filter(model=cell.model) if cell.model else query


def _rows(cell: Cell, counted: Counted) -> "QuerySet[StoredRequest]":
    """The rows of a cell, the newest first."""
    asked = StoredRequest.objects.all() if cell.tenant is None else StoredRequest.objects.filter(tenant=cell.tenant)
    column = "" if cell.tenant is None else "tenant"
    newest_first = newest(asked, counted.since_us, counted.until_us, column=column)
    # The index alone answers this, so that a rare cell of a busy time costs no more than any other.
    bound = newest_first.values_list("started_us", flat=True)[SCANNED : SCANNED + 1]
    rows = _whose(newest(asked, max([counted.since_us, *bound]), counted.until_us, column=column), cell)
    return rows.filter(**_bounds(cell))


def _bounds(cell: Cell) -> dict[str, int | bool]:
    time, (first, last) = _TIME[cell.measure], cell.buckets
    bounds: dict[str, int | bool] = {f"{time}__isnull": False}
    if first:
        bounds[f"{time}__gt"] = BOUNDS_MS[first - 1] * 1000
    if last < BUCKETS - 1:
        bounds[f"{time}__lte"] = BOUNDS_MS[last] * 1000
    return bounds


def _instances(rows: list[tuple[str, int, int]]) -> list[Instance]:
    times: dict[str, list[int]] = defaultdict(list)
    errors: dict[str, int] = defaultdict(int)
    for worker_id, status, time_us in rows:
        times[worker_id].append(time_us)
        errors[worker_id] += status >= 500
    found = [
        Instance(name, len(took), errors[name], percentile(took, 0.5) / 1000, percentile(took, 0.95) / 1000)
        for name, took in times.items()
    ]
    return sorted(found, key=lambda instance: (-instance.requests, instance.worker_id))
