"""The tree of a request's spans, made from its record when somebody asks for it.

Ids of spans follow from what they are about, so that whoever makes the tree anew makes the same ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from domain.trace.record import Record, Run
from domain.trace.stages import GROUPS, Stage

Value = str | int | float | bool

REQUEST, ATTEMPT = "request", "attempt"

_GROUP_OF = {stage: group for group, stages in GROUPS.items() for stage in stages}


@dataclass(frozen=True, slots=True)
class Span:
    """One span.

    Attributes:
        name: "request", "attempt" or a stage.
        span_id: 16 hex digits; ``parent_id`` likewise, of the client's own for the root, or "".
        group: the part of the system that it belongs to, as in :data:`domain.trace.stages.GROUPS`; "" for the request.
        start_us, end_us: microseconds since 1970.
        attributes: what is known of it.
        error: what went wrong, or "".
        links: ids of spans that it follows from, but is no child of: the attempt that was lost before.
    """

    name: str
    span_id: str
    parent_id: str
    group: str
    start_us: int
    end_us: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    links: tuple[str, ...] = ()

    @property
    def length_us(self) -> int:
        """How long it took."""
        return self.end_us - self.start_us


def span_id(request_id: str, name: str, attempt: int = 0) -> str:
    """The id of one span of a request: 16 hex digits."""
    return blake2b(f"{request_id}/{name}/{attempt}".encode(), digest_size=8).hexdigest()


def tree(record: Record) -> list[Span]:
    """All spans of a request: the request first, a parent before its children, else in order of time."""
    end_us = max(record.ended_us, record.received_us)
    root = Span(
        REQUEST,
        record.span_id,
        record.parent_id,
        "",
        record.received_us,
        end_us,
        _known(_of_request(record)),
        record.code if record.status >= 400 else "",
    )
    spans = [root, *_at_the_gateway(record)]
    for number, run in enumerate(record.runs):
        following = record.runs[number + 1] if number + 1 < len(record.runs) else None
        spans += _attempt(record, run, following, end_us)
    return [*spans, *_way_back(record, end_us)]


def _of_request(record: Record) -> dict[str, Value]:
    return {
        "tenant": record.tenant,
        "qos_class": record.qos_class,
        "model": record.model,
        "model_version": record.model_version,
        "endpoint": record.endpoint,
        "stream": record.stream,
        "gateway_id": record.gateway_id,
        "outcome": record.outcome,
        "status": record.status,
        "code": record.code,
        "cache": record.cache,
        "leader_id": record.leader_id,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
    }


def _known(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value not in ("", 0) or value is False}


def _at_the_gateway(record: Record) -> Iterator[Span]:
    ends = (
        (Stage.RECEIVE, record.asked_us),
        (Stage.PROTECT, record.looked_up_us),
        (Stage.COUNT, record.counted_us),
        (Stage.ADMIT, record.admitted_us),
    )
    yield from _chain(record, record.span_id, record.received_us, ends, 0)


def _attempt(record: Record, run: Run, following: Run | None, end_us: int) -> Iterator[Span]:
    if run.lost and run.first_us:
        run = replace(run, last_us=_last_piece_us(record, following.ready_us if following else end_us))
    own_id = span_id(record.request_id, ATTEMPT, run.attempt)
    start_us = max(record.admitted_us, run.ready_us if run.attempt else 0) or record.received_us
    known_us = max(run.last_us, run.first_us, run.held_us, run.claimed_us, start_us)
    until_us = (following.ready_us if following else end_us) if run.lost or not run.last_us else known_us
    yield Span(
        ATTEMPT,
        own_id,
        record.span_id,
        "engine",
        start_us,
        max(start_us, min(until_us or known_us, end_us)),
        _known(_of_run(run)),
        run.lost,
        (span_id(record.request_id, ATTEMPT, run.attempt - 1),) if run.attempt else (),
    )
    yield from _chain(record, own_id, start_us, _of_an_engine(run), run.attempt)


def _last_piece_us(record: Record, before_us: int) -> int:
    """When the last piece came before an attempt was lost, whose worker could not tell of its last token."""
    return max((at for at, _tokens in record.timeline if at <= before_us), default=0)


def _of_run(run: Run) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        "worker_id": run.worker_id,
        "batch_id": run.batch_id,
        "item_seq": run.item_seq,
        "batch_items": run.batch_items,
        "model_version": run.model_version,
        "trigger": run.trigger,
        "retry_attempt": run.attempt,
        "rollback_cause": run.cause,
        "delivered_tokens": run.delivered_tokens,
        "prompt_tokens": run.prompt_tokens,
        "cached_tokens": run.cached_tokens,
        "steps": run.steps,
        "preemptions": run.preemptions,
        "kv_usage_percent": run.kv_usage_permille / 10,
    }
    if run.prompt_tokens:
        attributes["kv_hit_percent"] = round(100 * run.cached_tokens / run.prompt_tokens, 1)
    return attributes


def _of_an_engine(run: Run) -> Sequence[tuple[Stage, int]]:
    by_ticket = run.trigger == "ticket"
    waited = (
        ((Stage.WINDOW, run.rung_us), (Stage.TRANSIT, run.started_us)) if by_ticket else ((Stage.ROOM, run.claimed_us),)
    )
    return (
        *waited,
        (Stage.CLAIM, run.held_us),
        (Stage.PREPARE, run.queued_us),
        (Stage.ENGINE_QUEUE, run.scheduled_us),
        (Stage.PREFILL, run.first_us),
        (Stage.DECODE, run.last_us),
    )


def _way_back(record: Record, end_us: int) -> Iterator[Span]:
    run = record.first_token_run
    last_us = max((one.last_us for one in record.runs), default=0)
    begin_us = (run.first_us if record.stream else run.last_us) if run else record.admitted_us
    ends = ((Stage.RETURN, record.heard_us), (Stage.RELAY, record.answered_us))
    yield from _chain(record, record.span_id, begin_us or record.received_us, ends, 0)
    if last_us and end_us > (start_us := max(last_us, record.answered_us)):
        yield _piece(record, record.span_id, Stage.FINISH, start_us, end_us, 0)


def _chain(
    record: Record, parent_id: str, start_us: int, ends: Sequence[tuple[Stage, int]], attempt: int
) -> Iterator[Span]:
    for stage, moment in ends:
        if moment > start_us:
            yield _piece(record, parent_id, stage, start_us, moment, attempt)
            start_us = moment


def _piece(record: Record, parent_id: str, stage: Stage, start_us: int, end_us: int, attempt: int) -> Span:
    own_id = span_id(record.request_id, stage.value, attempt)
    return Span(stage.value, own_id, parent_id, _GROUP_OF[stage], start_us, end_us)
