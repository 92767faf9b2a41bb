"""What may become of an item at admission."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from domain.limits import Level, Limit


class Allowance(NamedTuple):
    """What a limit leaves: ``left`` of ``limit``, and the ms until all of it is there again."""

    limit: Limit
    left: int
    reset_ms: int


@dataclass(frozen=True, slots=True)
class Tightest:
    """The limit of requests and the limit of tokens that leave least; None where there is none."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


class Gap(NamedTuple):
    """A day or month of which the store does not know what was used before it began to count.

    Attributes:
        level: of the tenant or the key of the item.
        period: as the store names it: ``d20261130``, ``m202611``.
        since_ms: from when on it counts.
    """

    level: Level
    period: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The item cannot be checked before these gaps are filled.

    Attributes:
        gaps: those of the item's tenant and key.
        unsettled: some of what ended before may not have reached the database yet.
    """

    gaps: tuple[Gap, ...]
    unsettled: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """The item waits in the ready set.

    Attributes:
        ring: a ticket has to be published; ``has_room`` some engine can take it now, so if not, a ticket is under way.
        tightest: what its limits leave.
        unknown: gaps that hold no limit back, but what the tenant is shown; None if there are none.
        follows: request id of the equal request whose answer it shares: it does not wait itself unless that one fails;
            "" if it has to be computed.
        month_tokens: that its tenant has spent in this month; ``month_cost_nano`` likewise.
    """

    ring: bool
    has_room: bool
    tightest: Tightest
    unknown: Unknown | None
    month_tokens: int
    month_cost_nano: int
    follows: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """It got a kept answer: counted, settled, and over.

    Attributes:
        answer: as it was given to :meth:`~workers.ready.ready_set.ReadySet.store_answer`; empty if the gateway had it.
        tightest: what its limits leave.
        month_tokens: that its tenant has spent in this month; ``month_cost_nano`` likewise.
    """

    answer: bytes
    tightest: Tightest
    month_tokens: int
    month_cost_nano: int


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The item was not admitted because of a limit.

    Attributes:
        limit: the one that bars it for longest; ``left`` what is left of it.
        retry_ms: when it may pass; None if it needs more than the limit can ever give.
        tightest: what its limits leave.
    """

    limit: Limit
    left: int
    retry_ms: int | None
    tightest: Tightest


@dataclass(frozen=True, slots=True)
class Closed:
    """The item was not admitted because its queue takes no more.

    Attributes:
        reason: "draining", "queue_full" or "queue_bytes".
        most: items, or bytes, that may wait there.
        waiting: items that wait.
        oldest_ms: how long the oldest of them has waited; ``latest_waits_ms`` how long those waited that were taken
            last.
        tightest: what its limits leave.
    """

    reason: str
    most: int
    waiting: int
    oldest_ms: int
    latest_waits_ms: tuple[int, ...]
    tightest: Tightest


@dataclass(frozen=True, slots=True)
class Repeated:
    """Not admitted: its idempotency key was used before.

    Attributes:
        what: "other_body", "running", "done" (``answer`` is the first one's) or "used" (its answer is not kept).
        request_id: of the first request.
        answer: as it was given to :meth:`~workers.ready.ready_set.ReadySet.keep_answer`; else empty.
    """

    what: str
    request_id: str
    answer: bytes


Verdict = Admitted | Hit | OverLimit | Closed | Unknown | Repeated
"""What may become of an item at admission."""


def decode_verdict(reply: Sequence[Any], limits: Sequence[Limit]) -> Verdict:
    """Read what ``admit.lua`` returns for an item with these limits."""
    if reply[0] == b"unknown":
        return _unknown(reply[1])
    if reply[0] == b"again":
        return Repeated(reply[1].decode(), reply[2].decode(), reply[3])
    if reply[0] == b"ok":
        ring, tightest, unknown, tokens, cost, follows = reply[1:7]
        gaps = _unknown(unknown) if unknown else None
        allowed = _tightest(tightest, limits)
        return Admitted(ring == 1, ring > 0, allowed, gaps, int(tokens), int(cost), follows.decode())
    if reply[0] == b"hit":
        tightest, tokens, cost, answer = reply[1:5]
        return Hit(answer, _tightest(tightest, limits), int(tokens), int(cost))
    tightest = _tightest(reply[2], limits)
    if reply[1] == b"limit":
        number, left, retry_ms = (int(part) for part in reply[3:6])
        return OverLimit(limits[number - 1], left, None if retry_ms < 0 else retry_ms, tightest)
    most, waiting, oldest_ms, latest_ms = reply[3:7]
    return Closed(reply[1].decode(), most, waiting, oldest_ms, tuple(int(wait) for wait in latest_ms), tightest)


def _tightest(flat: Sequence[int], limits: Sequence[Limit]) -> Tightest:
    def allowance(number: int, left: int, reset_ms: int) -> Allowance | None:
        return Allowance(limits[number - 1], left, reset_ms) if number else None

    return Tightest(allowance(*flat[:3]), allowance(*flat[3:]))


def _unknown(flat: Sequence[Any]) -> Unknown:
    gaps = (
        Gap(Level(level.decode()), period.decode(), int(since))
        for level, period, since in zip(flat[1::3], flat[2::3], flat[3::3], strict=True)
    )
    return Unknown(tuple(gaps), flat[0] == 1)
