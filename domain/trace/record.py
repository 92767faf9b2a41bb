"""The record of one request: every moment that a process noted on its way.

All moments are microseconds since 1970 by the clock of the process that noted them; 0 is a moment that never came, or
that nobody told. Durations are never taken from here but from :mod:`domain.trace.stages`, which cuts the way into
pieces that add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt on an engine, as its worker told it.

    Attributes:
        attempt: 0 for the first.
        worker_id: who ran it.
        batch_id: with ``item_seq`` (from 1) its place in a batch of ``batch_items``.
        model_version: of the engine.
        trigger: "ticket" for a Celery message, "pull" when room came free.
        cause: why the attempt before this one ended; "" for a first one.
        lost: why this one ended early; "" for one that was the last.
        rung_us: the gateway closed the window, of a ticket.
        started_us: the worker began with the ticket.
        ready_us: the store put the item into the ready set; full ms.
        claimed_us: the store gave it to the worker; full ms.
        held_us: the worker had it.
        queued_us: the engine took it in.
        scheduled_us: the engine first computed for it.
        first_us: its first token was there; ``last_us`` its last one.
        steps: of the engine between those two, one at least.
        preemptions: how often the engine took its blocks away.
        prompt_tokens: of its prompt; ``cached_tokens`` of them were found in the KV cache.
        delivered_tokens: by the attempts before.
        kv_usage_permille: of the engine's KV cache when it began.
    """

    attempt: int = 0
    worker_id: str = ""
    batch_id: str = ""
    item_seq: int = 0
    batch_items: int = 0
    model_version: str = ""
    trigger: str = ""
    cause: str = ""
    lost: str = ""
    rung_us: int = 0
    started_us: int = 0
    ready_us: int = 0
    claimed_us: int = 0
    held_us: int = 0
    queued_us: int = 0
    scheduled_us: int = 0
    first_us: int = 0
    last_us: int = 0
    steps: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    delivered_tokens: int = 0
    kv_usage_permille: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of one request.

    Attributes:
        request_id: UUID v4; starts with the first 12 hex digits of ``trace_id``.
        trace_id: 32 hex digits; ``span_id`` 16, the gateway's span in it; ``parent_id`` the client's span or "".
        tenant: slug; "" before it is known who calls.
        qos_class, model, endpoint: "" before they are known.
        stream: it asked for a stream.
        gateway_id: the process that held its connection.
        outcome: how it ended: one of :class:`domain.outcome.Outcome`, or "refused" before it was admitted.
        status: HTTP status that the client got, 499 if it left.
        code: the error's reason, or "".
        cache: what kept answers did for it: "hit", "coalesced", "stale", "miss", or "" where none was looked for.
        model_version: that made the answer, or "".
        leader_id: the request whose run it shared, or "".
        prompt_tokens, cached_tokens, completion_tokens: as it was told.
        received_us: its head was here.
        asked_us: it was read, its key known and its body checked.
        looked_up_us: it was looked for among kept answers and filters.
        counted_us: its prompt was counted.
        admitted_us: the store had said yes or no.
        heard_us: the first piece of its answer was in the gateway.
        answered_us: the first piece was written to the client.
        ended_us: all of it was, or the client had left.
        runs: its attempts that are known, the first one first.
        timeline: moments at which pieces came, with the tokens there were then; bounded.
    """

    request_id: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    tenant: str = ""
    qos_class: str = ""
    model: str = ""
    endpoint: str = ""
    stream: bool = False
    gateway_id: str = ""
    outcome: str = ""
    status: int = 0
    code: str = ""
    cache: str = ""
    model_version: str = ""
    leader_id: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    received_us: int = 0
    asked_us: int = 0
    looked_up_us: int = 0
    counted_us: int = 0
    admitted_us: int = 0
    heard_us: int = 0
    answered_us: int = 0
    ended_us: int = 0
    runs: tuple[Run, ...] = ()
    timeline: tuple[tuple[int, int], ...] = ()

    @property
    def last_run(self) -> Run | None:
        """The attempt that ended it."""
        return self.runs[-1] if self.runs else None

    @property
    def first_token_run(self) -> Run | None:
        """The attempt that made the first token."""
        return next((run for run in self.runs if run.first_us), None)

    @property
    def is_error(self) -> bool:
        """It failed by no fault of its client."""
        return self.status >= 500


_RUN_FIELDS = tuple(one.name for one in fields(Run))
_RECORD_FIELDS = tuple(one.name for one in fields(Record))


def flat_run(run: Run) -> list[Any]:
    """A run as a list, for a message."""
    return [getattr(run, name) for name in _RUN_FIELDS]


def read_run(flat: Sequence[Any]) -> Run:
    """The run that :func:`flat_run` made; values that a later release added are left out.

    Raises:
        TypeError, ValueError: it is none.
    """
    return Run(**dict(zip(_RUN_FIELDS, flat, strict=False)))


def flat_record(record: Record, *, whole: bool = True) -> list[Any]:
    """A record as a list, for a message or a store; without its timeline if not ``whole``."""
    flat = [getattr(record, name) for name in _RECORD_FIELDS]
    flat[-2] = [flat_run(run) for run in record.runs]
    if not whole:
        flat[-1] = ()
    return flat


def read_record(flat: Sequence[Any]) -> Record:
    """The record that :func:`flat_record` made; values that a later release added are left out.

    Raises:
        TypeError, ValueError: it is none.
    """
    values = dict(zip(_RECORD_FIELDS, flat, strict=False))
    runs = tuple(read_run(run) for run in values.pop("runs", ()))
    timeline = tuple((int(at), int(tokens)) for at, tokens in values.pop("timeline", ()))
    return Record(**values, runs=runs, timeline=timeline)
