"""The stages of a request: its way cut into pieces that follow each other and add up.

A piece ends where the next one begins. Moments come from several clocks, so one may lie before the one that it follows;
it is then taken to be that one, and no piece is negative. A moment that nobody told leaves its piece at 0, and the time
goes to the next one that is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from domain.trace.record import Record, Run


class Stage(StrEnum):
    """A piece of a request's way, in its order."""

    RECEIVE = "receive"  # reading, authenticating, checking the body
    PROTECT = "protect"  # filters, whitelist, kept answers of this process
    COUNT = "count"  # the prompt's tokens
    ADMIT = "admit"  # gateway -> store -> gateway: quota, and into the ready set
    RETRY = "retry"  # attempts that ended before the first token
    WINDOW = "window"  # until a ticket was asked for
    TRANSIT = "transit"  # gateway -> broker -> worker: the ticket
    ROOM = "room"  # until an engine had room, claimed without a ticket
    CLAIM = "claim"  # worker -> store -> worker
    PREPARE = "prepare"  # from the claim into the engine
    ENGINE_QUEUE = "engine_queue"  # inside the engine until its first step
    PREFILL = "prefill"  # from its first step to its first token
    DECODE = "decode"  # from the first token to the last
    RETURN = "return"  # worker -> store -> gateway: the first piece (of a whole answer: all of it)
    RELAY = "relay"  # gateway -> client: the same
    FINISH = "finish"  # from the last token to the end of the answer


STAGES = tuple(Stage)

GROUPS: Mapping[str, tuple[Stage, ...]] = {
    "gateway": (Stage.RECEIVE, Stage.PROTECT, Stage.COUNT, Stage.ADMIT),
    "queue": (Stage.RETRY, Stage.WINDOW, Stage.ROOM),
    "celery": (Stage.TRANSIT, Stage.CLAIM),
    "engine": (Stage.PREPARE, Stage.ENGINE_QUEUE, Stage.PREFILL, Stage.DECODE),
    "way_back": (Stage.RETURN, Stage.RELAY, Stage.FINISH),
}
"""Stages by the part of the system in which they pass."""

HOPS = frozenset({Stage.ADMIT, Stage.TRANSIT, Stage.CLAIM, Stage.RETURN, Stage.RELAY})
"""Stages that go from one process to another."""

AFTER_FIRST_TOKEN = frozenset({Stage.DECODE, Stage.FINISH})

_End = tuple[Stage, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A request's way in pieces.

    Attributes:
        lengths_us: of all stages, in their order. Those before the first token add up to ``ttft_us`` where there is
            one, all of them to ``duration_us``.
        ttft_us: from the request's head to the first piece of its stream; None for a whole answer, and for none.
        duration_us: to the end.
    """

    lengths_us: tuple[int, ...]
    ttft_us: int | None
    duration_us: int

    def __getitem__(self, stage: Stage) -> int:
        return self.lengths_us[STAGES.index(stage)]


def cut(record: Record) -> Cut:
    """Cut a request's way into stages."""
    end_us = max(record.ended_us, record.received_us)
    streams = record.stream and record.answered_us > 0
    lengths = dict.fromkeys(STAGES, 0)
    cursor = record.received_us
    first_part, second_part = _way(record, streams=streams)
    limit = min(max(record.answered_us, record.received_us), end_us) if streams else end_us
    for stage, moment in first_part:
        cursor = _advance(lengths, stage, cursor, min(moment, limit))
    for stage, moment in second_part:
        cursor = _advance(lengths, stage, cursor, min(moment, end_us))
    ttft = limit - record.received_us if streams else None
    return Cut(tuple(lengths.values()), ttft, end_us - record.received_us)


def _advance(lengths: dict[Stage, int], stage: Stage, cursor: int, moment: int) -> int:
    if moment <= cursor:
        return cursor
    lengths[stage] += moment - cursor
    return moment


def _way(record: Record, *, streams: bool) -> tuple[list[_End], list[_End]]:
    """The ends of the stages up to the first piece, and of those after it."""
    run = record.first_token_run or record.last_run
    before = [*_at_the_gateway(record), *(_on_an_engine(run, record) if run else ())]
    last_us = max((one.last_us for one in record.runs), default=0)
    if streams:
        back = [(Stage.RETURN, record.heard_us), (Stage.RELAY, record.answered_us)]
        return [*before, *back], [(Stage.DECODE, last_us), (Stage.FINISH, record.ended_us)]
    back = [(Stage.RETURN, record.heard_us), (Stage.RELAY, record.answered_us), (Stage.FINISH, record.ended_us)]
    return before, [(Stage.DECODE, last_us), *back]


def _at_the_gateway(record: Record) -> Iterator[_End]:
    yield Stage.RECEIVE, record.asked_us or record.ended_us  # one that was refused before it was read
    yield Stage.PROTECT, record.looked_up_us
    yield Stage.COUNT, record.counted_us
    yield Stage.ADMIT, record.admitted_us


def _on_an_engine(run: Run, record: Record) -> Iterator[_End]:
    if run is not record.runs[0] or run.attempt:
        yield Stage.RETRY, run.ready_us
    if run.trigger == "ticket":
        yield Stage.WINDOW, run.rung_us
        yield Stage.TRANSIT, run.started_us
    else:
        yield Stage.ROOM, run.claimed_us
    yield Stage.CLAIM, run.held_us
    yield Stage.PREPARE, run.queued_us
    yield Stage.ENGINE_QUEUE, run.scheduled_us
    yield Stage.PREFILL, run.first_us
