"""Writing records: each request once, however often it is told."""

from collections.abc import Iterable, Sequence
from itertools import chain

from django.db import connection, transaction

from domain.trace.record import Record
from tracing.models import StoredRequest
from tracing.store.row import Row, row_of
from tracing.store.sums import add_sums

_ROWS_PER_STATEMENT = 500
"""Times 26 columns stays under the bound of 32,766 variables that SQLite puts on one statement."""


def store(records: Iterable[tuple[str, Record]]) -> int:
    """Store records, each with why all its moments are kept, or ""; returns how many were new.

    Raises:
        django.db.DatabaseError: the database does not answer; what was not written may be given again.
    """
    rows: dict[str, Row] = {}
    for why, record in records:
        rows.setdefault(record.request_id, row_of(record, why))
    ordered = [rows[request_id] for request_id in sorted(rows)]
    return sum(
        _store(ordered[start : start + _ROWS_PER_STATEMENT]) for start in range(0, len(ordered), _ROWS_PER_STATEMENT)
    )


def _store(rows: Sequence[Row]) -> int:
    with transaction.atomic():
        new = _insert(rows)
        add_sums(row for row in rows if row.request_id in new)
    return len(new)


def _insert(rows: Sequence[Row]) -> set[str]:
    # Plain SQL, because bulk_create(ignore_conflicts=True) does not tell which rows were new.
    quote = connection.ops.quote_name
    one = f"({', '.join(['%s'] * len(Row._fields))})"
    statement = (
        f"INSERT INTO {quote(StoredRequest._meta.db_table)} ({', '.join(map(quote, Row._fields))}) "
        f"VALUES {', '.join([one] * len(rows))} ON CONFLICT (request_id) DO NOTHING RETURNING request_id"
    )
    values = list(chain.from_iterable(rows))
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {request_id for (request_id,) in cursor.fetchall()}
