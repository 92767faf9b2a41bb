"""The row of one request, as it is written and summed up."""

from typing import NamedTuple

from domain.trace.record import Record
from domain.trace.stages import cut
from tracing.store.packing import pack_lengths, pack_moments


class Row(NamedTuple):
    """One row of :class:`tracing.models.StoredRequest`, which takes ten times as long to make; the same names."""

    request_id: str
    trace_id: str
    started_us: int
    recency_us: int
    duration_us: int
    ttft_us: int | None
    tenant: str
    qos_class: str
    model: str
    model_version: str
    endpoint: str
    stream: bool
    gateway_id: str
    worker_id: str
    batch_id: str
    outcome: str
    status: int
    code: str
    cache: str
    retry_attempt: int
    rollback_cause: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    lengths: bytes
    kept: str
    moments: bytes | None


def row_of(record: Record, why: str) -> Row:
    """The row of one record."""
    way, run = cut(record), record.last_run
    return Row(
        request_id=record.request_id,
        trace_id=record.trace_id,
        started_us=record.received_us,
        recency_us=-record.received_us,
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
