"""Sums of requests by minute and hour, for the heat map."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.db import connection

from domain.trace.buckets import HOUR_US, MINUTE_US, bucket_of
from tracing.models import RequestSum
from tracing.store.row import Row

_PERIODS = ((RequestSum.Period.MINUTE, MINUTE_US), (RequestSum.Period.HOUR, HOUR_US))
_PER_STATEMENT = 1_000
"""Times 8 columns stays under the bound of 32,766 variables that SQLite puts on one statement."""


class Cell(NamedTuple):
    """What one sum is about. Everybody writes them in this order, so that nobody blocks another who blocks him."""

    period: str
    starts_us: int
    tenant: str
    model: str
    measure: str
    bucket: int


def add_sums(rows: Iterable[Row]) -> None:
    """Add rows to the sums; call it in the transaction that writes them, once for each.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    sums: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        for cell in _cells(row):
            one = sums[cell]
            one[0] += 1
            one[1] += row.status >= 500
    flat = sorted((cell, requests, errors) for cell, (requests, errors) in sums.items())
    for start in range(0, len(flat), _PER_STATEMENT):
        _add(flat[start : start + _PER_STATEMENT])


def _cells(row: Row) -> Iterator[Cell]:
    measures = [(RequestSum.Measure.DURATION, row.duration_us)]
    if row.ttft_us is not None:
        measures.append((RequestSum.Measure.TTFT, row.ttft_us))
    for period, length_us in _PERIODS:
        starts_us = row.started_us - row.started_us % length_us
        for measure, time_us in measures:
            yield Cell(period.value, starts_us, row.tenant, row.model, measure.value, bucket_of(time_us))


def _add(sums: list[tuple[Cell, int, int]]) -> None:
    # Plain SQL, because bulk_create(update_conflicts=True) can replace values but not add to them.
    table = connection.ops.quote_name(RequestSum._meta.db_table)
    row = "(%s, %s, %s, %s, %s, %s, %s, %s)"
    statement = (
        f"INSERT INTO {table} (period, starts_us, tenant, model, measure, bucket, requests, errors) "
        f"VALUES {', '.join([row] * len(sums))} "
        "ON CONFLICT (period, starts_us, tenant, model, measure, bucket) DO UPDATE SET "
        f"requests = {table}.requests + excluded.requests, errors = {table}.errors + excluded.errors"
    )
    values = [value for cell, requests, errors in sums for value in (*cell, requests, errors)]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
