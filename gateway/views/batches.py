"""/v1/batches: files of requests of the caller's tenant, worked off when engines have time."""

from datetime import datetime

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request

from gateway.body import read_body
from gateway.connection import beneath
from gateway.idempotency import digest, read_key
from gateway.openapi_batches import batch_cancel_schema, batch_create_schema, batch_list_schema, batch_schema
from gateway.runtime import runtime
from gateway.schema.batches import (
    Batch,
    BatchErrorLine,
    BatchErrors,
    BatchList,
    BatchUsage,
    CachedDetails,
    ReasoningDetails,
    RequestCounts,
    parse_new_batch,
)
from gateway.scopes import INFERENCE
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response
from gateway.views.query import number, only
from tenants.models import BulkJob

MAX_LISTED, LISTED = 100, 20


class Batches(DataView):
    """All of a tenant's batches."""

    scope = INFERENCE

    @batch_list_schema
    async def get(self, request: Request) -> HttpResponse:
        """List your batches, the newest first."""
        query = only(request.query_params, "after", "limit")
        limit = number("limit", query.get("limit", str(LISTED)), MAX_LISTED)
        found = await runtime().bulk.listed(principal_of(request), query.get("after"), limit + 1)
        shown = [_shown(job) for job in found[:limit]]
        first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
        return json_response(BatchList("list", shown, first, last, len(found) > limit))

    @batch_create_schema
    async def post(self, request: Request) -> HttpResponse:
        """Have a file of requests worked off; it is checked first, in the background."""
        inner = beneath(request)
        repeatable = read_key(inner.scope["headers"])
        body = await read_body(inner.receive, inner.scope["headers"], settings.SLUICE.max_body_bytes)
        digests = (digest(repeatable.encode()), digest(body)) if repeatable else ("", "")
        job = await runtime().bulk.create(principal_of(request), parse_new_batch(body), inner.colour, digests)
        return json_response(_shown(job))


class OneBatch(DataView):
    """One batch."""

    scope = INFERENCE

    @batch_schema
    async def get(self, request: Request, batch: str) -> HttpResponse:
        """Tell how a batch stands."""
        only(request.query_params)
        return json_response(_shown(await runtime().bulk.find(principal_of(request), batch)))


class CancelBatch(DataView):
    """The end of one batch before its time."""

    scope = INFERENCE

    @batch_cancel_schema
    async def post(self, request: Request, batch: str) -> HttpResponse:
        """Cancel a batch: what runs is ended; what has a result keeps it, and is in its files once it is cancelled."""
        return json_response(_shown(await runtime().bulk.cancel(principal_of(request), batch)))


def _shown(job: BulkJob) -> Batch:
    errors = [BatchErrorLine(**error) for error in job.errors]
    return Batch(
        id=job.public_id,
        object="batch",
        endpoint=job.endpoint,
        model=job.model or None,
        errors=BatchErrors("list", errors) if errors else None,
        input_file_id=job.input_file_id,
        completion_window=job.completion_window,
        status=job.status,
        output_file_id=job.output_file_id or None,
        error_file_id=job.error_file_id or None,
        created_at=int(job.created_at.timestamp()),
        in_progress_at=_seconds(job.in_progress_at),
        expires_at=int(job.expires_at.timestamp()),
        finalizing_at=_seconds(job.finalizing_at),
        completed_at=_seconds(job.completed_at),
        failed_at=_seconds(job.failed_at),
        expired_at=_seconds(job.expired_at),
        cancelling_at=_seconds(job.cancelling_at),
        cancelled_at=_seconds(job.cancelled_at),
        request_counts=RequestCounts(job.total, job.completed, job.failed),
        usage=_usage(job),
        metadata=job.metadata,
        waiting_for=job.waiting_for or None,
        trace_id=job.trace_id,
    )


def _usage(job: BulkJob) -> BatchUsage:
    return BatchUsage(
        input_tokens=job.prompt_tokens,
        input_tokens_details=CachedDetails(job.cached_tokens),
        output_tokens=job.completion_tokens,
        output_tokens_details=ReasoningDetails(0),
        total_tokens=job.prompt_tokens + job.completion_tokens,
    )


def _seconds(moment: datetime | None) -> int | None:
    return int(moment.timestamp()) if moment else None
