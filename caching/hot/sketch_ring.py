"""Counting on the hot path: a ring of windows, each a sketch that holds what was asked for most in it.

A sketch (Apache DataSketches, frequent items) takes bounded memory however many keys there are; those of several
processes can be merged. One tenant cannot fill it: in each window it is counted at most as often as all others
together ask, or :data:`TENANT_FLOOR` times, whichever is more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from datasketches import frequent_strings_sketch

from caching.hot.counted import prefix_of

WINDOW_S = 12.0
WINDOWS = 5
LG_COUNTERS = 14
"""A sketch has 3/4 of 2^14 counters; up to so many keys its counts are exact."""
TENANT_FLOOR = 4096
"""A third of the counters: so often a tenant is counted in a window, whatever the others do."""


@dataclass(slots=True)
class _Share:
    """A tenant's part of a window: how often it asked, and how often that was counted."""

    asked: int = 0
    counted: int = 0


class SketchRing:
    """What one process counts. Windows are numbered by the clock, so those of all processes are the same.

    Attributes:
        counted: operations counted so far.
        over_quota: operations that were not counted, because their tenant had had its share of the window.
    """

    def __init__(self, window_s: float = WINDOW_S, windows: int = WINDOWS, tenant_floor: int = TENANT_FLOOR) -> None:
        self.counted = 0
        self.over_quota = 0
        self._window_s = window_s
        self._windows = windows
        self._floor = tenant_floor
        self._number: int | None = None
        self._closed: dict[int, frequent_strings_sketch] = {}
        self._sketch: frequent_strings_sketch | None
        self._open(frequent_strings_sketch(LG_COUNTERS))

    def count(self, kind: str, key: bytes, tenant_id: int, model: str) -> None:
        """Count one request for ``key``; takes about a microsecond."""
        if self._sketch is None:
            return
        self._asked += 1
        share = self._shares[tenant_id]
        share.asked += 1
        if share.counted >= self._floor and share.counted >= self._asked - share.asked:
            self.over_quota += 1
            return
        share.counted += 1
        self.counted += 1
        whose = (kind, tenant_id, model)
        prefix = self._prefixes.get(whose)
        if prefix is None:
            prefix = self._prefixes[whose] = prefix_of(kind, tenant_id, model)
        self._sketch.update(prefix + key.hex())

    def roll(self, now_s: float) -> None:
        """Go on to the window of this moment (seconds since 1970); to be called more often than a window takes."""
        number = int(now_s // self._window_s)
        if number == self._number:
            return
        if self._number is not None and self._sketch is not None and not self._sketch.is_empty():
            self._closed[self._number] = self._sketch
        self._number = number
        self._closed = {old: sketch for old, sketch in self._closed.items() if number - self._windows <= old}
        # A clock that was set back comes to a window once more.
        self._open(self._closed.pop(number, None) or frequent_strings_sketch(LG_COUNTERS))

    def closed(self) -> dict[int, bytes]:
        """Windows that are over and were not forgotten, serialized, by number; empty ones are left out."""
        return {number: sketch.serialize() for number, sketch in self._closed.items()}

    def forget(self, numbers: Collection[int]) -> None:
        """Let windows go that were handed in."""
        for number in numbers:
            self._closed.pop(number, None)

    def close(self) -> None:
        """Count no more. Of a sketch that lives when the process ends, its library complains in hundreds of lines."""
        self._closed.clear()
        self._sketch = None

    def _open(self, sketch: frequent_strings_sketch) -> None:
        self._sketch = sketch
        self._asked = 0
        self._shares: defaultdict[int, _Share] = defaultdict(_Share)
        self._prefixes: dict[tuple[str, int, str], str] = {}


def merge(windows: Iterable[tuple[int, bytes]]) -> dict[int, frequent_strings_sketch]:
    """Add up the windows of several processes; one that cannot be read is left out.

    Args:
        windows: number and what :meth:`SketchRing.closed` made, in any order.
    """
    merged: dict[int, frequent_strings_sketch] = {}
    for number, packed in windows:
        try:
            sketch = frequent_strings_sketch.deserialize(packed)
        except (RuntimeError, ValueError, IndexError):
            continue
        if number in merged:
            merged[number].merge(sketch)
        else:
            merged[number] = sketch
    return merged
