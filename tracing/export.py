"""Records as spans for a collector: one trace from HTTP to engine and back, linked with its batches."""

from hashlib import blake2b

from opentelemetry.trace import SpanKind

from domain.trace.record import Record
from domain.trace.spans import ATTEMPT, REQUEST, Span, Value, tree
from domain.trace.stages import Stage
from tracing import names, spans

_OPERATIONS = {"chat": "chat", "completions": "text_completion", "embeddings": "embeddings"}
_NAMES = {
    "model": names.REQUEST_MODEL,
    "prompt_tokens": names.INPUT_TOKENS,
    "cached_tokens": names.CACHED_TOKENS,
    "completion_tokens": names.OUTPUT_TOKENS,
}
_KINDS = {REQUEST: SpanKind.SERVER, ATTEMPT: SpanKind.CONSUMER, Stage.TRANSIT.value: SpanKind.PRODUCER}


def batch_ids(batch_id: str) -> spans.Ids:
    """Where the span of a batch stands: in a trace of its own, since many requests share it."""
    trace_id = blake2b(batch_id.encode(), digest_size=16).hexdigest()
    return spans.Ids(trace_id, blake2b(f"{batch_id}/batch".encode(), digest_size=8).hexdigest())


def export(record: Record) -> None:
    """Hand on all spans of a request; nothing where no collector is named."""
    if not spans.are_on():
        return
    for span in tree(record):
        links = [spans.Ids(record.trace_id, one) for one in span.links]
        if span.name == ATTEMPT and (batch_id := span.attributes.get("batch_id")):
            links.append(batch_ids(str(batch_id)))
        spans.emit(
            _name(record, span),
            spans.Ids(record.trace_id, span.span_id),
            span.parent_id,
            span.start_us,
            span.end_us,
            _attributes(record, span),
            links,
            kind=_KINDS.get(span.name, SpanKind.INTERNAL),
            error=span.error,
        )


def _name(record: Record, span: Span) -> str:
    if span.name == REQUEST:
        return f"{_OPERATIONS.get(record.endpoint, record.endpoint)} {record.model}".strip()
    return f"{names.OWN}{span.name}"


def _attributes(record: Record, span: Span) -> dict[str, Value]:
    attributes = {_NAMES.get(name, names.OWN + name): value for name, value in span.attributes.items()}
    attributes[names.OWN + names.REQUEST_ID] = record.request_id
    if span.name in (REQUEST, ATTEMPT):
        attributes[names.OPERATION_NAME] = _OPERATIONS.get(record.endpoint, record.endpoint)
        attributes[names.OWN + names.TENANT_SCOPE] = f"{record.tenant}/{record.qos_class}"
    return attributes
