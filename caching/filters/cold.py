"""Keys that exist and keep being missed: they are worth being warmed up, those that are missed once are not."""

from collections import OrderedDict
from dataclasses import dataclass

from caching.filters.cuckoo import CuckooFilter

CAPACITY = 65_536
RECENT = 4_096
THRESHOLD = 3


@dataclass(slots=True)
class _Seen:
    """``marked``: this key's own mark is surely in the filter."""

    misses: int
    marked: bool


class ColdKeys:
    """Counts misses: of the latest ``recent`` keys exactly, of older ones only that there was a miss.

    A flood of keys that are missed once fills the filter, at two bytes each, and reaches nothing else. What leaves the
    filter is only what the exact index knows to be in it. A full filter is made anew from the index.

    Attributes:
        rebuilds: how often it was full.
    """

    def __init__(self, capacity: int = CAPACITY, recent: int = RECENT, threshold: int = THRESHOLD) -> None:
        self._recent, self._threshold = recent, threshold
        self._filter = CuckooFilter(capacity)
        self._index: OrderedDict[str, _Seen] = OrderedDict()
        self.rebuilds = 0

    def __len__(self) -> int:
        return self._filter.size

    def __contains__(self, key: str) -> bool:
        return key in self._filter

    def missed(self, key: str) -> bool:
        """Count a miss; True if the key is due to be warmed up."""
        seen = self._index.pop(key, None) or self._first(key)
        seen.misses += 1
        self._index[key] = seen
        if len(self._index) > self._recent:
            self._index.popitem(last=False)
        return seen.misses >= self._threshold

    def leave(self, key: str) -> None:
        """It is warm, or gone: its misses so far count no more."""
        seen = self._index.pop(key, None)
        if seen is not None and seen.marked:
            self._filter.remove(key)

    def _first(self, key: str) -> _Seen:
        if key in self._filter:  # missed longer ago than the index remembers; or, rarely, another key's mark
            return _Seen(1, marked=False)
        if self._filter.full:
            self._rebuild()
        self._filter.add(key)
        return _Seen(0, marked=True)

    def _rebuild(self) -> None:
        self._filter = CuckooFilter(self._filter.capacity)
        for key, seen in self._index.items():
            self._filter.add(key)
            seen.marked = True
        self.rebuilds += 1
