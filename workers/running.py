"""An item on the engine."""

import asyncio
from dataclasses import dataclass, field

from domain.usage import Usage
from workers import wire
from workers.engines.port import Endpoint, Job
from workers.ready.item import ClaimedItem, Ending


@dataclass(slots=True)
class Running:
    """An item on the engine: its task, and how it is to end if somebody aborts it."""

    item: ClaimedItem
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


def job_of(item: ClaimedItem) -> Job:
    """The item as the engine gets it."""
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
        trace_headers={"traceparent": item.traceparent} if item.traceparent else {},
    )
