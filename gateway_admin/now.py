"""The figures of the page "Now", made of the requests that ended in the last minute."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypedDict

from django.utils.translation import gettext as _

from domain.trace.attribution import percentile
from gateway_admin.trouble import Trouble
from tracing.store.recent import Ended, ended_since

SECOND_US = 1_000_000
WINDOW_S = 60
RATE_S = 10
STORED_AFTER_S = 1
"""A request is in the database about a second after its end: a rate of the very last second would be too low."""

_WITHOUT_ENGINE = frozenset({"hit", "coalesced", "stale", "replayed"})
_NOTED, _BAD = 0.01, 0.05


class Range(TypedDict):
    """Median and 95th percentile, in ms; None where there was nothing to measure."""

    p50_ms: float | None
    p95_ms: float | None


class Figures(TypedDict):
    """What the last minute was like.

    Attributes:
        requests: that ended in the last minute; ``failed`` of them with a status of 500 or more, ``refused`` with 429,
            as limits and full queues do.
        requests_per_s, tokens_per_s: over the last ten seconds; tokens of answers count when these end.
        ttft: time to first token, of streams.
        token: time per token of an answer after its first one.
        cache_share: answered without an engine, of those for which a kept answer was looked for; None for none.
        prefix_share: prompt tokens that were found in the KV cache, of all; None for none.
        sampled: there were more than are read: the latest stand for all.
    """

    requests: int
    failed: int
    refused: int
    requests_per_s: float
    tokens_per_s: float
    ttft: Range
    token: Range
    cache_share: float | None
    prefix_share: float | None
    sampled: bool


class Recent(NamedTuple):
    """Requests that ended in the last minute before the end of ``second``."""

    second: int
    ended: list[Ended]
    sampled: bool


@lru_cache(1)
def read_recent(second: int) -> Recent:
    """Read them, once a second for all who look.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    ended, sampled = ended_since((second - WINDOW_S) * SECOND_US)
    return Recent(second, ended, sampled)


def figures_of(recent: Recent) -> Figures:
    """Make the figures."""
    ended = recent.ended
    until_us = (recent.second - STORED_AFTER_S) * SECOND_US
    latest = [one for one in ended if until_us - RATE_S * SECOND_US <= one.ended_us < until_us]
    return {
        "requests": len(ended),
        "failed": sum(one.status >= 500 for one in ended),
        "refused": sum(one.status == 429 for one in ended),
        "requests_per_s": len(latest) / RATE_S,
        "tokens_per_s": sum(one.completion_tokens for one in latest) / RATE_S,
        "ttft": _range([one.ttft_us for one in ended if one.ttft_us is not None]),
        "token": _range([one.decode_us // (one.completion_tokens - 1) for one in ended if _is_timed(one)]),
        "cache_share": _share(one.cache in _WITHOUT_ENGINE for one in ended if one.cache),
        "prefix_share": _prefix_share(ended),
        "sampled": recent.sampled,
    }


def failing(figures: Figures) -> list[Trouble]:
    """Say so where requests fail, beside what is wrong with the queues."""
    count, failed = figures["requests"], figures["failed"]
    if not failed or failed / count < _NOTED:
        return []
    text = _("%(percent)s %% of the requests that ended in the last minute failed: %(failed)d of %(count)d.")
    names = {"percent": f"{100 * failed / count:.1f}".removesuffix(".0"), "failed": failed, "count": count}
    level: Literal["bad", "wait"] = "bad" if failed / count >= _BAD else "wait"
    return [{"key": "failing", "level": level, "text": text % names, "target": None}]


def _is_timed(one: Ended) -> bool:
    return one.decode_us > 0 and one.completion_tokens > 1


def _range(times_us: Sequence[int]) -> Range:
    if not times_us:
        return {"p50_ms": None, "p95_ms": None}
    return {"p50_ms": percentile(times_us, 0.5) / 1000, "p95_ms": percentile(times_us, 0.95) / 1000}


def _share(answers: Iterable[bool]) -> float | None:
    known = list(answers)
    return sum(known) / len(known) if known else None


def _prefix_share(ended: Sequence[Ended]) -> float | None:
    tokens = sum(one.prompt_tokens for one in ended)
    return sum(one.cached_tokens for one in ended) / tokens if tokens else None
