"""An item on the engine."""

import asyncio
from dataclasses import dataclass, field
from urllib.parse import quote

from domain.trace.record import Run
from domain.trace.spans import ATTEMPT, span_id
from domain.usage import Usage
from tracing import names
from workers import wire
from workers.engines.port import Endpoint, Job, Times
from workers.ready.item import ClaimedItem, Ending


@dataclass(frozen=True, slots=True)
class Claiming:
    """How a worker came to a batch.

    Attributes:
        trigger: "ticket" or "pull".
        rung_us: when the ticket was asked for, ``started_us`` when the worker began with it; 0 for a pull.
        held_us: when the worker had the claim's items; of ``items`` items.
        kv_usage_permille: of the engine's KV cache at that moment.
    """

    trigger: str
    rung_us: int = 0
    started_us: int = 0
    held_us: int = 0
    items: int = 1
    kv_usage_permille: int = 0


@dataclass(slots=True)
class Running:
    """An item on the engine: its task, and how it is to end if somebody aborts it."""

    item: ClaimedItem
    claiming: Claiming = field(default_factory=lambda: Claiming("pull"))
    times: Times = field(default_factory=Times)
    task: "asyncio.Task[None] | None" = None
    abort: Ending | None = None
    usage: Usage = field(default_factory=Usage)
    first_token_ms: int | None = None
    begun: bool = False
    stopped: bool = False
    told_tokens: int = 0

    def stop(self) -> None:
        """Stop the task. One that is cancelled before its first step would never clean up, so it stops itself there."""
        self.stopped = True
        if self.begun and self.task:
            self.task.cancel()

    @property
    def made_tokens(self) -> int:
        """Output tokens of this attempt."""
        return max(0, self.usage.completion_tokens - self.item.delivered_tokens)

    def ending(self, outcome: str, status: int, code: str) -> Ending:
        """The end of this item, with what it used."""
        return Ending(outcome, status, code, self.usage, self.first_token_ms)

    def run(self, worker_id: str, model_version: str) -> Run:
        """This attempt so far, as its gateway is told of it."""
        item, how, times = self.item, self.claiming, self.times
        return Run(
            attempt=item.attempt,
            worker_id=worker_id,
            batch_id=item.batch_id,
            item_seq=item.item_seq,
            batch_items=how.items,
            model_version=model_version,
            trigger=how.trigger,
            cause=item.last_cause,
            rung_us=how.rung_us,
            started_us=how.started_us,
            ready_us=item.ready_ms * 1000,
            claimed_us=item.claimed_ms * 1000,
            held_us=how.held_us,
            queued_us=times.queued_us,
            scheduled_us=times.scheduled_us,
            first_us=times.first_us,
            last_us=times.last_us,
            steps=times.steps,
            preemptions=times.preemptions,
            prompt_tokens=self.usage.prompt_tokens,
            cached_tokens=self.usage.cached_tokens,
            delivered_tokens=item.delivered_tokens,
            kv_usage_permille=how.kv_usage_permille,
        )


def job_of(item: ClaimedItem, times: Times) -> Job:
    """The item as the engine gets it, and where the engine notes what it does when."""
    endpoint: Endpoint = item.endpoint  # type: ignore[assignment]  # the gateway admits no other
    return Job(
        request_id=item.request_id,
        endpoint=endpoint,
        body=item.body,
        stream=item.stream,
        priority=item.priority,
        cache_salt=item.cache_salt,
        delivered_text=item.delivered_text,
        delivered_tokens=item.delivered_tokens,
        delivered_ids=wire.unpack_ids(item.delivered_ids),
        trace_headers=_trace_headers(item),
        times=times,
    )


def _trace_headers(item: ClaimedItem) -> dict[str, str]:
    """W3C context for the engine's own spans: beneath this attempt, and with the request's ids as baggage."""
    if not item.traceparent:
        return {}
    own_id = span_id(item.request_id, ATTEMPT, item.attempt)
    baggage = {
        names.REQUEST_ID: item.request_id,
        names.TENANT_SCOPE: f"{item.tenant}/{item.qos_class.value}",
        names.BATCH_ID: item.batch_id,
    }
    return {
        "traceparent": f"{item.traceparent[:36]}{own_id}-01",
        "baggage": ",".join(f"{names.OWN}{name}={quote(value)}" for name, value in baggage.items()),
    }
