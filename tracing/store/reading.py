"""Finding requests by any of their ids, by tenant, version, time and outcome."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from domain.trace.attribution import DURATION, TTFT, Sample
from domain.trace.record import Record
from tracing.models import StoredRequest
from tracing.store.newest import INDEXED, newest
from tracing.store.packing import unpack_lengths, unpack_moments

SHOWN = 50
MAX_SAMPLES = 10_000
"""Requests that one attribution looks at, the latest ones: enough for a percentile, and read within a second."""

_WITHOUT_BYTES = ("lengths", "moments")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which requests; every part is optional, and all of them together hold.

    Attributes:
        text: the beginning of the id of a request, a trace or a batch; or a tenant or a model version.
        tenant, qos_class, model, model_version, worker_id, outcome: exactly these.
        from_us, to_us: when they began, microseconds since 1970; 0 for no bound.
        errors_only: the HTTP status was 500 or more.
        slow_us: they took longer than this; ``slow_ttft_us`` until their first token.
    """

    text: str = ""
    tenant: str = ""
    qos_class: str = ""
    model: str = ""
    model_version: str = ""
    worker_id: str = ""
    outcome: str = ""
    from_us: int = 0
    to_us: int = 0
    errors_only: bool = False
    slow_us: int = 0
    slow_ttft_us: int = 0


def find(selection: Selection, limit: int = SHOWN) -> list[StoredRequest]:
    """The newest requests of a selection, without their bytes.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    rows: dict[str, StoredRequest] = {}
    for query, column in _by_text(_narrowed(selection), selection.text.strip().lower()):
        column = column or _compared(selection)
        for row in newest(query.defer(*_WITHOUT_BYTES), selection.from_us, selection.to_us, column=column)[:limit]:
            rows.setdefault(row.request_id, row)
    return sorted(rows.values(), key=lambda row: -row.started_us)[:limit]


def find_one(request_id: str) -> StoredRequest | None:
    """One request, whole."""
    return StoredRequest.objects.filter(request_id=request_id).first()


def batch_mates(row: StoredRequest, limit: int = SHOWN) -> list[StoredRequest]:
    """Other requests that ran in its batch."""
    if not row.batch_id:
        return []
    mates = StoredRequest.objects.filter(batch_id=row.batch_id).exclude(pk=row.pk)
    return list(mates.defer(*_WITHOUT_BYTES).order_by("started_us")[:limit])


def moments_of(row: StoredRequest) -> Record | None:
    """All moments of a request; None where only its row is kept."""
    return unpack_moments(row.moments) if row.moments else None


def samples(selection: Selection, measure: str = TTFT, limit: int = MAX_SAMPLES) -> list[Sample]:
    """What an attribution needs of the latest requests of a selection: those that an engine answered.

    Args:
        selection: which.
        measure: "ttft" takes streams alone, "duration" all.
        limit: of requests.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    time_of = "duration_us" if measure == DURATION else "ttft_us"
    query = _narrowed(selection).filter(status=200).exclude(worker_id="")
    if measure == TTFT:
        query = query.filter(ttft_us__isnull=False)
    ordered = newest(query, selection.from_us, selection.to_us, column=_compared(selection))
    rows = ordered.values_list("lengths", time_of, "worker_id", "tenant")[:limit]
    return [Sample(unpack_lengths(lengths), time_us, worker, tenant) for lengths, time_us, worker, tenant in rows]


def _narrowed(selection: Selection) -> "QuerySet[StoredRequest]":
    exact: dict[str, Any] = {
        name: value
        for name in ("tenant", "qos_class", "model", "model_version", "worker_id", "outcome")
        if (value := getattr(selection, name))
    }
    if selection.errors_only:
        exact["status__gte"] = 500
    if selection.slow_us:
        exact["duration_us__gt"] = selection.slow_us
    if selection.slow_ttft_us:
        exact["ttft_us__gt"] = selection.slow_ttft_us
    return StoredRequest.objects.filter(**exact)


def _compared(selection: Selection) -> str:
    """A column with an index of its own that the selection compares with a value, the rarest kind first."""
    return next((name for name in INDEXED if getattr(selection, name)), "")


def _by_text(query: "QuerySet[StoredRequest]", text: str) -> Iterator[tuple["QuerySet[StoredRequest]", str]]:
    """The ways to read a text, each with the column that it compares; each of them uses an index.

    A request id starts with the first 12 digits of its trace id, so a trace is found by these and then compared.
    """
    if not text:
        yield query, ""
        return
    yield query.filter(_begins("request_id", text)), ""
    yield query.filter(_begins("batch_id", text)), ""
    yield query.filter(tenant=text), "tenant"
    yield query.filter(model_version=text), "model_version"
    if "-" not in text and len(text) > 8:
        yield query.filter(_begins("request_id", f"{text[:8]}-{text[8:12]}"), trace_id__startswith=text), ""


def _begins(field: str, text: str) -> Q:
    """What begins so, in the way in which each database uses its index: SQLite's LIKE knows no case and so no index,
    and on Postgres the order of text may not be that of its bytes."""
    if connection.vendor == "postgresql":
        return Q(**{f"{field}__startswith": text})
    return Q(**{f"{field}__gte": text, f"{field}__lt": f"{text}\U0010ffff"})
