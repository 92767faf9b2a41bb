"""Requests as gateways and workers tell of them, stored as they are in the product."""

import itertools
import uuid
from dataclasses import replace
from typing import Any

from domain.trace.record import Record, Run
from tracing.clock import now_us
from tracing.store.writing import store

SECOND_US, MINUTE_US, HOUR_US = 1_000_000, 60_000_000, 3_600_000_000

_numbers = itertools.count(1)


def ago(**lengths: float) -> int:
    """The moment so many seconds, minutes or hours ago."""
    seconds = lengths.get("seconds", 0) + 60 * lengths.get("minutes", 0) + 3_600 * lengths.get("hours", 0)
    return now_us() - int(seconds * SECOND_US)


def asked(at_us: int, ms: float = 50, first_ms: float | None = None, worker: str = "worker-0", **fields: Any) -> Record:
    """A request that took so long; one with ``first_ms`` is a stream, one without a worker was never run."""
    number = next(_numbers)
    end_us = at_us + int(ms * 1000)
    first_us = at_us + int(first_ms * 1000) if first_ms is not None else 0
    run = Run(worker_id=worker, trigger="pull", claimed_us=at_us, held_us=at_us, first_us=first_us, last_us=end_us)
    record = Record(
        request_id=str(uuid.UUID(int=number)),
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        tenant="acme",
        qos_class="p1",
        model="m1",
        endpoint="chat",
        stream=first_ms is not None,
        gateway_id="gateway-0",
        outcome="completed",
        status=200,
        received_us=at_us,
        answered_us=first_us,
        ended_us=end_us,
        runs=(run,) if worker else (),
    )
    return replace(record, **fields)


def travelled(at_us: int, worker: str = "worker-0", **fields: Any) -> Record:
    """A whole way by ticket, each of its stages so long that it can be told from its neighbours."""
    moments = [at_us + 1000 * passed for passed in (1, 1, 1, 5, 6, 9, 13, 14, 14, 34, 114)]
    asked_us, looked_up_us, counted_us, admitted_us, rung_us, started_us, held_us, queued_us, scheduled_us = moments[:9]
    run = Run(
        worker_id=worker,
        trigger="ticket",
        rung_us=rung_us,
        started_us=started_us,
        claimed_us=started_us,
        held_us=held_us,
        queued_us=queued_us,
        scheduled_us=scheduled_us,
        first_us=moments[9],
        last_us=moments[10],
    )
    told = {
        "asked_us": asked_us,
        "looked_up_us": looked_up_us,
        "counted_us": counted_us,
        "admitted_us": admitted_us,
        "heard_us": at_us + 120_000,
        "answered_us": at_us + 121_000,
    }
    record = replace(asked(at_us, 121, worker=worker), runs=(run,), **told)
    return replace(record, **fields)


def keep(*records: Record) -> None:
    """Store them."""
    store([("", record) for record in records])
