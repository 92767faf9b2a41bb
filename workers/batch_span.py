"""The span of a batch, linked with the attempts of its items as these are with it."""

from collections.abc import Sequence

from domain.trace.spans import ATTEMPT, span_id
from tracing import names, spans
from tracing.clock import now_us
from tracing.export import batch_ids
from workers.ready.item import ClaimedItem
from workers.running import Claiming

MAX_LINKS = 128


def attempt_ids(item: ClaimedItem) -> spans.Ids:
    """Where the span of this attempt stands: in the trace of its request."""
    trace_id = item.traceparent[3:35] or "0" * 32
    return spans.Ids(trace_id, span_id(item.request_id, ATTEMPT, item.attempt))


def emit(worker_id: str, items: Sequence[ClaimedItem], how: Claiming) -> None:
    """Make the span of a batch whose items have all ended."""
    batch_id = items[0].batch_id
    attributes: spans.Attributes = {
        names.OWN + names.BATCH_ID: batch_id,
        names.OWN + "worker_id": worker_id,
        names.OWN + "batch_items": len(items),
        names.OWN + "trigger": how.trigger,
        names.REQUEST_MODEL: items[0].model,
    }
    links = [attempt_ids(item) for item in items[:MAX_LINKS] if item.traceparent]
    spans.emit("sluice.batch", batch_ids(batch_id), "", how.held_us, now_us(), attributes, links)
