"""How far limits are used: read from what the store counts, without changing it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from domain.limits import KINDS, Amount, Level, Limit, Span

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class LimitState:
    """One limit as it stands; tokens, requests, or billionths of the currency's unit.

    Attributes:
        level: whom it holds: the tenant or one key.
        name: one of ``domain.limits.KINDS``.
        limit: at most so much.
        used: spent; of a minute also what waiting and running requests have set aside.
        held: set aside in this day or month for requests that wait or run.
        remaining: what a new request may still take, never below 0.
        resets_at: ms of the epoch at which all of it is there again (a minute's bucket: when it is full if nothing
            more is taken); None for requests at once, which come back as they end.
        known: False while the store counts only since it began anew, so that more may have been used; then ``since``
            is the ms from which on it counts, and None if it does not count yet.
        in_force: no other level leaves less of the same; of equals the tenant's goes first.
    """

    level: Level
    name: str
    limit: int
    used: int
    held: int
    remaining: int
    resets_at: int | None
    known: bool = True
    since: int | None = None
    in_force: bool = True

    def with_used_before(self, more: int) -> "LimitState":
        """The same with what was used before the store began to count; now all is known."""
        used = self.used + more
        return replace(self, used=used, remaining=max(0, self.limit - used - self.held), known=True, since=None)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the store counts for one tenant or key, as its hashes hold it; missing hashes are empty.

    Attributes:
        bucket: levels of the token buckets of a minute by amount, and ``at``.
        at_once: requests that wait or run.
        day: spent and held in this day; ``month`` likewise.
    """

    bucket: Mapping[bytes, bytes]
    at_once: int
    day: Mapping[bytes, bytes]
    month: Mapping[bytes, bytes]


def day_and_month(now_ms: int) -> tuple[str, str]:
    """Names of the day and the month of a moment, as the store's keys carry them: ``d20261130``, ``m202611``."""
    now = _moment(now_ms)
    return f"d{now:%Y%m%d}", f"m{now:%Y%m}"


def states(
    limits: Iterable[Limit], counted: Mapping[Level, Counted], now_ms: int, born_ms: int | None
) -> list[LimitState]:
    """The state of each limit, in their order.

    Args:
        limits: of one tenant and at most one of its keys.
        counted: for each level that occurs in ``limits``.
        now_ms: the store's time.
        born_ms: when the store began to count; None if nobody was admitted yet.
    """
    return in_force([_state(limit, counted[limit.level], now_ms, born_ms) for limit in limits])


def in_force(seen: Iterable[LimitState]) -> list[LimitState]:
    """Mark of each name the one that leaves least."""
    seen = list(seen)
    least: dict[str, LimitState] = {}
    for state in seen:
        other = least.get(state.name)
        if other is None or (state.remaining, state.level is Level.KEY) < (other.remaining, other.level is Level.KEY):
            least[state.name] = state
    return [replace(state, in_force=least[state.name] is state) for state in seen]


def _state(limit: Limit, counted: Counted, now_ms: int, born_ms: int | None) -> LimitState:
    kind = KINDS[limit.name]
    if kind.span is Span.AT_ONCE:
        left = max(0, limit.cap - counted.at_once)
        return LimitState(limit.level, limit.name, limit.cap, counted.at_once, 0, left, None)
    if kind.span is Span.MINUTE:
        return _minute(limit, kind.amount, counted.bucket, now_ms)
    begins, ends = bounds(kind.span, now_ms)
    spent = counted.day if kind.span is Span.DAY else counted.month
    used, held = _taken(kind.amount, spent, adjusted=kind.span is Span.MONTH)
    known = spent.get(b"base") == b"1" if spent else _counts_from(limit.level, begins, born_ms)
    since = None if known or b"since" not in spent else int(spent[b"since"])
    left = max(0, limit.cap - used - held)
    return LimitState(limit.level, limit.name, limit.cap, used, held, left, ends, known, since)


def _counts_from(level: Level, begins_ms: int, born_ms: int | None) -> bool:
    """Whether a hash that is missing means that nothing was used: each tenant's is always kept, a key's is not."""
    return level is Level.TENANT and born_ms is not None and born_ms <= begins_ms


def _minute(limit: Limit, amount: Amount, bucket: Mapping[bytes, bytes], now_ms: int) -> LimitState:
    level = float(bucket.get(amount.value.encode(), limit.cap))
    since_ms = max(0, now_ms - int(float(bucket.get(b"at", now_ms))))
    level = min(limit.cap, level + since_ms * limit.cap / _MINUTE_MS)
    left = max(0, int(level // 1))
    full_at = now_ms + int((limit.cap - level) * _MINUTE_MS / limit.cap)
    return LimitState(limit.level, limit.name, limit.cap, limit.cap - int(level // 1), 0, left, full_at)


def _taken(amount: Amount, spent: Mapping[bytes, bytes], *, adjusted: bool) -> tuple[int, int]:
    """Spent and held of an amount; ``adjusted`` adds the tokens of corrections by hand, which belong to months."""
    parts = "io" if amount is Amount.TOKENS else amount.value
    used = sum(_whole(spent, part) for part in parts)
    if adjusted and amount is Amount.TOKENS:
        used += _whole(spent, "a")
    return used, sum(_whole(spent, f"h{part}") for part in parts)


def _whole(spent: Mapping[bytes, bytes], field: str) -> int:
    return int(spent.get(field.encode(), b"0"))


def bounds(span: Span, now_ms: int) -> tuple[int, int]:
    """First ms of the day or month (``span``) of a moment, and of the next one."""
    midnight = _moment(now_ms).replace(hour=0, minute=0, second=0, microsecond=0)
    begins = midnight if span is Span.DAY else midnight.replace(day=1)
    ends = begins + timedelta(days=1) if span is Span.DAY else (begins + timedelta(days=32)).replace(day=1)
    return int(begins.timestamp() * 1000), int(ends.timestamp() * 1000)


def _moment(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC)
