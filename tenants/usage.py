"""Writing what requests used: once per request, however often it is told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Field

from tenants.models import UsageRecord
from tenants.rollup import add_sums, database_values, sums_of

_ROWS_PER_STATEMENT = 500
"""Times 26 columns stays under the bound of 32,766 variables that SQLite puts on one statement."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one settled request used; the fields are those of :class:`~tenants.models.UsageRecord`.

    Attributes:
        request_id: the request's UUID, the row's identity.
        prompt_tokens, cached_tokens, completion_tokens: tokens; the cached ones are part of the prompt.
        cost_nano: billionths of the currency's unit; ``price_id`` the price that they follow from.
        retry_attempt: how often the request was run again.
        cache: "hit" for a kept answer, "coalesced" for one that was made for an equal request; "" for one of its own.
            Of the first two, tokens are what counts of them: ``Plan.cached_price_percent`` of what the run used.
        admitted_at, claimed_at, first_token_at, finished_at: aware times; None for what never happened.
    """

    request_id: str
    tenant_id: int
    key_id: int
    model: str
    model_version: str
    qos_class: str
    endpoint: str
    stream: bool
    outcome: str
    status: int
    error_code: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_nano: int
    price_id: int | None
    retry_attempt: int
    rollback_cause: str
    batch_id: str
    worker_id: str
    gateway_id: str
    admitted_at: datetime
    claimed_at: datetime | None
    first_token_at: datetime | None
    finished_at: datetime
    cache: str = ""


def record_usage(rows: Sequence[UsageRow]) -> set[str]:
    """Insert ``rows``, ignoring those whose request is already recorded, and add the new ones to the sums.

    Rows and sums are written in one transaction for every 500 rows: wherever it stops, they agree. Any number of
    processes may write at once, also the same rows: all take rows in order of request id and then sums in the order
    of :class:`~tenants.rollup.Group`, so none waits for another in a circle.

    Returns:
        The ids of the requests that were new.

    Raises:
        django.db.DataError, django.db.IntegrityError, OverflowError: a value does not fit its column, so the 500 rows
            beside it are not written either.
        django.db.OperationalError, django.db.InterfaceError: the database does not answer. Some rows may have been
            written; calling again with the same rows is right. The connection is closed, so the next call opens one.
    """
    first_told: dict[str, UsageRow] = {}
    for row in rows:
        first_told.setdefault(row.request_id, row)
    try:
        parts = [_record(part) for part in _parts([first_told[request_id] for request_id in sorted(first_told)])]
    except (OperationalError, InterfaceError):
        if not connection.in_atomic_block:
            connection.close()
        raise
    return set().union(*parts)


def _parts(rows: Sequence[UsageRow]) -> Iterator[Sequence[UsageRow]]:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]


def _record(rows: Sequence[UsageRow]) -> set[str]:
    with transaction.atomic():
        new = _insert(rows)
        add_sums(sums_of(row for row in rows if row.request_id in new))
    return new


def _insert(rows: Sequence[UsageRow]) -> set[str]:
    # Plain SQL, because bulk_create(ignore_conflicts=True) does not tell which rows were new.
    columns = _columns()
    quote = connection.ops.quote_name
    one = f"({', '.join(['%s'] * len(columns))})"
    statement = (
        f"INSERT INTO {quote(UsageRecord._meta.db_table)} ({', '.join(quote(str(f.column)) for f in columns)}) "
        f"VALUES {', '.join([one] * len(rows))} ON CONFLICT ({quote('request_id')}) DO NOTHING "
        f"RETURNING {quote('request_id')}"
    )
    values = database_values(getattr(row, f.attname) for row in rows for f in columns)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {request_id for (request_id,) in cursor.fetchall()}


def _columns() -> list["Field[Any, Any]"]:
    by_attname = {f.attname: f for f in UsageRecord._meta.concrete_fields}
    return [by_attname[f.name] for f in fields(UsageRow)]
