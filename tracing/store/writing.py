"""Writing records: each request once, however often it is told."""

from collections.abc import Iterable, Sequence

from django.db import connection, transaction

from domain.trace.record import Record
from domain.trace.stages import cut
from tracing.models import StoredRequest
from tracing.store.packing import pack_lengths, pack_moments
from tracing.store.sums import add_sums

_ROWS_PER_STATEMENT = 500
"""Times 26 columns stays under the bound of 32,766 variables that SQLite puts on one statement."""


def store(records: Iterable[tuple[str, Record]]) -> int:
    """Store records, each with why all its moments are kept, or ""; returns how many were new.

    Raises:
        django.db.DatabaseError: the database does not answer; what was not written may be given again.
    """
    rows: dict[str, StoredRequest] = {}
    for why, record in records:
        rows.setdefault(record.request_id, row_of(record, why))
    ordered = [rows[request_id] for request_id in sorted(rows)]
    return sum(
        _store(ordered[start : start + _ROWS_PER_STATEMENT]) for start in range(0, len(ordered), _ROWS_PER_STATEMENT)
    )


def row_of(record: Record, why: str) -> StoredRequest:
    """The row of one record."""
    way, run = cut(record), record.last_run
    return StoredRequest(
        request_id=record.request_id,
        trace_id=record.trace_id,
        started_us=record.received_us,
        duration_us=way.duration_us,
        ttft_us=way.ttft_us,
        tenant=record.tenant[:64],
        qos_class=record.qos_class,
        model=record.model[:200],
        model_version=record.model_version[:64],
        endpoint=record.endpoint,
        stream=record.stream,
        gateway_id=record.gateway_id,
        worker_id=run.worker_id if run else "",
        batch_id=run.batch_id if run else "",
        outcome=record.outcome,
        status=record.status,
        code=record.code[:64],
        cache=record.cache,
        retry_attempt=run.attempt if run else 0,
        rollback_cause=run.cause if run else "",
        prompt_tokens=record.prompt_tokens,
        cached_tokens=record.cached_tokens,
        completion_tokens=record.completion_tokens,
        lengths=pack_lengths(way.lengths_us),
        kept=why,
        moments=pack_moments(record) if why else None,
    )


def _store(rows: Sequence[StoredRequest]) -> int:
    with transaction.atomic():
        new = _insert(rows)
        add_sums(row for row in rows if row.request_id in new)
    return len(new)


def _insert(rows: Sequence[StoredRequest]) -> set[str]:
    # Plain SQL, because bulk_create(ignore_conflicts=True) does not tell which rows were new.
    quote = connection.ops.quote_name
    fields = [field for field in StoredRequest._meta.concrete_fields if not field.primary_key]
    one = f"({', '.join(['%s'] * len(fields))})"
    statement = (
        f"INSERT INTO {quote(StoredRequest._meta.db_table)} ({', '.join(quote(str(f.column)) for f in fields)}) "
        f"VALUES {', '.join([one] * len(rows))} ON CONFLICT (request_id) DO NOTHING RETURNING request_id"
    )
    values = [getattr(row, field.attname) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {request_id for (request_id,) in cursor.fetchall()}
