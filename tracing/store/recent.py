"""The latest requests, of which pages that refresh themselves make their figures: a bounded number, newest first."""

from collections.abc import Iterator
from typing import NamedTuple

from django.db.models import Sum

from domain.trace.buckets import MINUTE_US
from domain.trace.stages import STAGES, Stage
from tracing.models import RequestSum, StoredRequest
from tracing.store.packing import unpack_lengths

LATEST = 20_000
"""Rows that are read at most."""

REACH_US = 10 * MINUTE_US
"""A request is stored when it ends; one that ended just now may have begun so long ago."""

_OF_ENDED = (
    "started_us",
    "duration_us",
    "ttft_us",
    "lengths",
    "status",
    "cache",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
)
_DECODE = slice(4 * STAGES.index(Stage.DECODE), 4 * STAGES.index(Stage.DECODE) + 4)


class Ended(NamedTuple):
    """What became of one request; ``ended_us`` is its last moment, ``decode_us`` from the first token to the last."""

    ended_us: int
    ttft_us: int | None
    decode_us: int
    status: int
    cache: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class Passed(NamedTuple):
    """The way of one request: between whom, and the lengths of its stages."""

    started_us: int
    gateway_id: str
    worker_id: str
    status: int
    lengths_us: tuple[int, ...]


class Minute(NamedTuple):
    """Requests that began in one minute."""

    starts_us: int
    requests: int
    errors: int


def ended_since(since_us: int) -> tuple[list[Ended], bool]:
    """Requests that ended at ``since_us`` or later, and whether there may be more than were read.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    rows = StoredRequest.objects.filter(started_us__gte=since_us - REACH_US).order_by("-started_us")
    read = list(rows.values_list(*_OF_ENDED)[:LATEST])
    found = [
        Ended(started_us + duration_us, ttft_us, int.from_bytes(bytes(lengths)[_DECODE], "little"), *rest)
        for started_us, duration_us, ttft_us, lengths, *rest in read
        if started_us + duration_us >= since_us
    ]
    return found, len(read) == LATEST


def passed_since(since_us: int) -> tuple[list[Passed], bool]:
    """Requests that began at ``since_us`` or later, and whether there are more than were read.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    rows = StoredRequest.objects.filter(started_us__gte=since_us).order_by("-started_us")
    columns = rows.values_list("started_us", "gateway_id", "worker_id", "status", "lengths")
    found = [
        Passed(started_us, gateway_id, worker_id, status, unpack_lengths(bytes(lengths)))
        for started_us, gateway_id, worker_id, status, lengths in columns[:LATEST]
    ]
    return found, len(found) == LATEST


def minutes_before(until_us: int, minutes: int) -> Iterator[Minute]:
    """The full minutes before a moment, the earliest first; those without a request too.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    end_us = until_us - until_us % MINUTE_US
    since_us = end_us - minutes * MINUTE_US
    sums = RequestSum.objects.filter(
        period=RequestSum.Period.MINUTE,
        starts_us__gte=since_us,
        starts_us__lt=end_us,
        measure=RequestSum.Measure.DURATION,
    )
    told = sums.values("starts_us").annotate(Sum("requests"), Sum("errors"))
    known = {row["starts_us"]: (row["requests__sum"], row["errors__sum"]) for row in told}
    for starts_us in range(since_us, end_us, MINUTE_US):
        yield Minute(starts_us, *known.get(starts_us, (0, 0)))
