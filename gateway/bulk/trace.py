"""Where a bulk job stands in its trace: below the request that made it, above all requests of its file."""

from domain.trace.spans import span_id
from tenants.models import BulkJob
from tracing import names, spans

SPAN = "bulk"


def job_traceparent(job_id: str, trace_id: str) -> str:
    """The W3C header under which each request of a job runs."""
    return f"00-{trace_id}-{span_id(job_id, SPAN)}-01"


def export_job(job: BulkJob, status: str, ended_us: int, requests: int, failed: int) -> None:
    """Hand on the span of a job that has ended; nothing where no collector is named."""
    if not spans.are_on():
        return
    attributes: dict[str, str | int | float | bool] = {
        names.OWN + "bulk.id": job.public_id,
        names.OWN + "bulk.status": status,
        names.OWN + "bulk.requests": requests,
        names.OWN + "bulk.failed": failed,
        names.OWN + names.TENANT_SCOPE: f"{job.tenant.slug}/p2",
    }
    began_us = int(job.created_at.timestamp() * 1_000_000)
    ids = spans.Ids(job.trace_id, span_id(job.public_id, SPAN))
    spans.emit(names.OWN + SPAN, ids, job.parent_id, began_us, ended_us, attributes)
