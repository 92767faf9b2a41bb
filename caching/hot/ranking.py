"""The top of what all processes counted: rate, trend, and no tenant that takes every place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from datasketches import frequent_items_error_type, frequent_strings_sketch

from caching.hot.counted import Counted, parse
from caching.hot.sketch_ring import LG_COUNTERS

MIN_COUNT = 3
"""Asked for less often than that in all windows together, a key is not hot."""
TENANT_PLACES = 0.25
"""Most of the places that one tenant takes while others want them."""


@dataclass(frozen=True, slots=True)
class HotRow:
    """One key of the top.

    Attributes:
        kind: "answer" or "prompt".
        key: of the kept answer (16 bytes), or the id of the stored prompt.
        tenant_id: whose requests; None if several tenants share the key.
        model: that most of them asked for.
        count: requests in all windows, at least.
        rate_per_minute: of those.
        trend: rate of the latest window over the mean of those before, minus 1; 0 while there is none to compare with.
        seen_s: end of the last window in which it was asked for, seconds since 1970.
    """

    kind: str
    key: bytes
    tenant_id: int | None
    model: str
    count: int
    rate_per_minute: float
    trend: float
    seen_s: float


@dataclass(slots=True)
class _Sum:
    most: Counted
    most_count: int
    count: int
    tenants: set[int]
    names: list[str] = field(default_factory=list)


def rank(windows: Mapping[int, frequent_strings_sketch], places: int, latest: int, window_s: float) -> list[HotRow]:
    """List what was asked for most, the most first.

    Takes tens of milliseconds: not for the event loop.

    Args:
        windows: merged sketches by number, none later than ``latest``.
        places: rows at most.
        latest: number of the latest window that is over.
        window_s: length of a window.
    """
    if not windows:
        return []
    total = frequent_strings_sketch(LG_COUNTERS)
    for sketch in windows.values():
        total.merge(sketch)
    first = min(windows)
    chosen = share_places(sorted(_sums(total), key=lambda one: -one.count), places)
    return [_row(one, windows, first, latest, window_s) for one in chosen]


def share_places(sums: "list[_Sum]", places: int) -> "list[_Sum]":
    """Give out places in order; a tenant beyond its share gets those that nobody else wants."""
    share = max(1, int(places * TENANT_PLACES))
    taken: dict[int, int] = {}
    inside, beyond = [], []
    for one in sums:
        tenant_id = one.most.tenant_id
        if taken.get(tenant_id, 0) < share:
            taken[tenant_id] = taken.get(tenant_id, 0) + 1
            inside.append(one)
        else:
            beyond.append(one)
    return sorted((inside + beyond)[:places], key=lambda one: -one.count)


def _sums(total: frequent_strings_sketch) -> "Iterable[_Sum]":
    """One for each key, whoever asked for it."""
    sums: dict[tuple[str, bytes], _Sum] = {}
    for name, _estimate, count, _most in total.get_frequent_items(
        frequent_items_error_type.NO_FALSE_POSITIVES, MIN_COUNT - 1
    ):
        counted = parse(name)
        if counted is None:
            continue
        known = sums.get((counted.kind, counted.key))
        if known is None:
            sums[counted.kind, counted.key] = _Sum(counted, count, count, {counted.tenant_id}, [name])
            continue
        known.count += count
        known.tenants.add(counted.tenant_id)
        known.names.append(name)
        if count > known.most_count:
            known.most, known.most_count = counted, count
    return sums.values()


def _row(one: _Sum, windows: Mapping[int, frequent_strings_sketch], first: int, latest: int, window_s: float) -> HotRow:
    in_window = {number: sum(sketch.get_estimate(name) for name in one.names) for number, sketch in windows.items()}
    seen = max((number for number, count in in_window.items() if count), default=latest)
    before = sum(count for number, count in in_window.items() if number != latest) / max(1, latest - first)
    return HotRow(
        kind=one.most.kind,
        key=one.most.key,
        tenant_id=one.most.tenant_id if len(one.tenants) == 1 else None,
        model=one.most.model,
        count=one.count,
        rate_per_minute=one.count * 60 / ((latest - first + 1) * window_s),
        trend=in_window.get(latest, 0) / before - 1 if before else 0.0,
        seen_s=(seen + 1) * window_s,
    )
