"""Batches on the pages "Traces": of which batch a request is part, and the requests of a batch."""

from collections.abc import Iterable
from dataclasses import replace

from domain.trace.record import Record
from domain.trace.spans import span_id
from gateway.bulk.trace import SPAN
from gateway_admin.batches import ended_at
from gateway_admin.moments import from_us
from tenants.models import BulkJob
from tracing.models import StoredRequest
from tracing.store.reading import Selection, find

PREFIX = "batch_"
SHORTEST = 9
"""Characters of an id, as of a trace's."""

_MOST = 5
_ANY_TENANT = 4
"""How many times more requests are read than shown: a client may name the trace of another tenant."""


def batches_of(row: StoredRequest, record: Record | None) -> list[BulkJob]:
    """The batch of which a request is part; none, or several if its trace does not tell them apart.

    All requests of a batch have its trace; but a client chooses its traces, so others may have it too.
    """
    if row.qos_class != "p2":
        return []
    jobs = BulkJob.objects.filter(trace_id=row.trace_id, tenant__slug=row.tenant).select_related("tenant")[:_MOST]
    if record is not None:
        return [job for job in jobs if span_id(job.public_id, SPAN) == record.parent_id]
    started = from_us(row.started_us)
    return [
        job
        for job in jobs
        if job.in_progress_at and job.in_progress_at <= started and started <= (ended_at(job) or started)
    ]


def find_also_by_batch(selection: Selection, limit: int) -> list[StoredRequest]:
    """The newest requests of a selection; its text may be the id of a batch, or the beginning of one.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    text = selection.text.strip().lower()
    jobs = _named(text) if text.startswith(PREFIX) and len(text) >= SHORTEST else []
    if not jobs:
        return find(selection, limit)
    rows = {row.request_id: row for job in jobs for row in _requests_of(job, selection, limit)}
    return sorted(rows.values(), key=lambda row: -row.started_us)[:limit]


def _named(text: str) -> list[BulkJob]:
    return list(BulkJob.objects.filter(public_id__startswith=text).select_related("tenant")[:_MOST])


def _requests_of(job: BulkJob, selection: Selection, limit: int) -> Iterable[StoredRequest]:
    rows = find(replace(selection, text=job.trace_id), _ANY_TENANT * limit)
    return [row for row in rows if row.tenant == job.tenant.slug and row.qos_class == "p2"][:limit]
