"""The span of one item's run on an engine: which batch, which attempt, and what became of it (W6, W14)."""

from opentelemetry.trace import Span

from tracing import names, spans
from workers.ready.item import ClaimedItem
from workers.running import Running

NAME = "sluice.run"

_OPERATIONS = {"chat": "chat", "completions": "text_completion", "embeddings": "embeddings"}


def start(item: ClaimedItem) -> Span | None:
    """Begin the span of an item that goes to the engine."""
    own = {
        "request_id": item.request_id,
        "tenant": item.tenant,
        "qos_class": item.qos_class.value,
        names.BATCH_ID: item.batch_id,
        names.ITEM_SEQ: item.item_seq,
        "queue_wait_ms": item.waited_ms,
        names.RETRY_ATTEMPT: item.attempt,
        names.ROLLBACK_CAUSE: item.last_cause,
        names.DELIVERED_TOKENS: item.delivered_tokens,
    }
    attributes = {
        names.OPERATION_NAME: _OPERATIONS.get(item.endpoint, item.endpoint),
        names.REQUEST_MODEL: item.model,
        **{names.OWN + name: value for name, value in own.items()},
    }
    return spans.start(NAME, item.traceparent, attributes)


def end(span: Span | None, running: Running, outcome: str, error: str = "") -> None:
    """End it with its usage; ``outcome`` is how the item ended, or why it goes elsewhere."""
    usage = running.usage
    attributes: spans.Attributes = {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
        names.OUTPUT_TOKENS: usage.completion_tokens,
        names.OWN + "outcome": outcome,
    }
    spans.end(span, attributes, error)
