"""Limits: what a plan or a key allows, how each is counted, and which one a refusal is about."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """Whom a limit holds: all keys of a tenant together, or one key."""

    TENANT = "t"
    KEY = "k"


class Amount(StrEnum):
    """What is counted. ``TOKENS`` is prompt and answer together, ``COST`` billionths of the currency's unit."""

    REQUESTS = "r"
    INPUT = "i"
    OUTPUT = "o"
    TOKENS = "t"
    COST = "c"


class Span(StrEnum):
    """Over what it is counted.

    ``MINUTE`` is a token bucket that refills evenly; ``DAY`` and ``MONTH`` are those of the calendar in UTC, by the
    time of admission; ``AT_ONCE`` is what runs or waits now.
    """

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"
    AT_ONCE = "at_once"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of limit: ``code`` is its name in Redis, ``amount`` what it counts over ``span``."""

    code: str
    amount: Amount
    span: Span


KINDS: dict[str, Kind] = {
    "max_concurrent": Kind("n", Amount.REQUESTS, Span.AT_ONCE),
    "requests_per_minute": Kind("rm", Amount.REQUESTS, Span.MINUTE),
    "input_tokens_per_minute": Kind("im", Amount.INPUT, Span.MINUTE),
    "output_tokens_per_minute": Kind("om", Amount.OUTPUT, Span.MINUTE),
    "tokens_per_minute": Kind("tm", Amount.TOKENS, Span.MINUTE),
    "requests_per_day": Kind("rd", Amount.REQUESTS, Span.DAY),
    "input_tokens_per_day": Kind("id", Amount.INPUT, Span.DAY),
    "output_tokens_per_day": Kind("od", Amount.OUTPUT, Span.DAY),
    "tokens_per_month": Kind("tM", Amount.TOKENS, Span.MONTH),
    "cost_per_month": Kind("cM", Amount.COST, Span.MONTH),
}
"""All kinds by the name that plans, keys, refusals and reports use, in the order in which they are checked."""


class Limit(NamedTuple):
    """One limit in force.

    Attributes:
        level: whom it holds.
        name: one of ``KINDS``.
        cap: at most so much; cost in billionths of the currency's unit.
    """

    level: Level
    name: str
    cap: int
