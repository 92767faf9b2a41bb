"""Which rows share a forward pass of an engine that pads, and what padding wastes (requirement W5).

A pass computes rows times the longest row. So rows meet in buckets of near lengths: the shortest length of a bucket is
at least ``1 / GROWTH`` of its longest, which bounds the waste of every pass, whatever comes.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

GROWTH = 1.125
"""Longest length of a bucket over the longest of the one before; narrower buckets make smaller batches."""

MAX_WASTE = 1 - 1 / GROWTH
"""Share of a pass's padded tokens that can be padding: 11 %."""

OLDEST_EVERY = 8
"""One pass in so many begins with the row that has waited longest, however urgent the others are."""

RECENT_PASSES = 256

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Row(Generic[ItemT]):
    """One sequence of tokens that waits for its pass.

    Attributes:
        order: its number in the order of arrival; no two rows have the same.
        length: tokens, at least 1.
        priority: lower runs earlier.
        item: whatever the row stands for.
    """

    order: int
    length: int
    priority: int
    item: ItemT


def bucket_edges(longest: int) -> tuple[int, ...]:
    """The longest length of each bucket, ascending; the last one is at least ``longest`` tokens."""
    edges = [1]
    while edges[-1] < longest:
        edges.append(max(edges[-1] + 1, int(edges[-1] * GROWTH)))
    return tuple(edges)


class LengthBuckets(Generic[ItemT]):
    """Rows that wait, and the choice of those that run next.

    Continuous: a pass is chosen when the engine is free for it, from all that waits then. It is led by the most urgent
    row, among equals the oldest one, and filled from that row's bucket in the same order.
    """

    def __init__(self, longest: int, max_tokens: int, max_rows: int) -> None:
        """Make empty buckets.

        Args:
            longest: tokens of the longest row that can come.
            max_tokens: padded tokens of a pass, at least ``longest``.
            max_rows: rows of a pass.
        """
        self._edges = bucket_edges(longest)
        self._max_tokens, self._max_rows = max_tokens, max_rows
        # By bucket and priority, each in the order of arrival; a line that is empty is removed.
        self._lines: dict[tuple[int, int], OrderedDict[int, Row[ItemT]]] = {}
        self._passes = 0
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, rows: Iterable[Row[ItemT]]) -> None:
        """Let rows wait; within a priority they come in the order of their numbers."""
        for row in rows:
            self._lines.setdefault(self._key(row), OrderedDict())[row.order] = row
            self._waiting += 1

    def remove(self, rows: Iterable[Row[ItemT]]) -> None:
        """Forget rows; those that do not wait any more are passed over."""
        for row in rows:
            line = self._lines.get(self._key(row))
            if line and line.pop(row.order, None):
                self._waiting -= 1
                if not line:
                    del self._lines[self._key(row)]

    def take(self) -> list[Row[ItemT]]:
        """Take out the rows of the next pass, the leading one first; none if nothing waits."""
        if not self._lines:
            return []
        self._passes += 1
        leader = self._leader()
        batch, longest = [leader], leader.length
        for row in self._neighbours(leader):
            longest = max(longest, row.length)
            if len(batch) == self._max_rows or longest * (len(batch) + 1) > self._max_tokens:
                break
            batch.append(row)
        self.remove(batch)
        return batch

    def _leader(self) -> Row[ItemT]:
        heads = (next(iter(line.values())) for line in self._lines.values())
        if self._passes % OLDEST_EVERY == 0:
            return min(heads, key=lambda row: row.order)
        return min(heads, key=lambda row: (row.priority, row.order))

    def _neighbours(self, leader: Row[ItemT]) -> Iterator[Row[ItemT]]:
        bucket, _ = self._key(leader)
        for key in sorted(key for key in self._lines if key[0] == bucket):
            yield from (row for row in self._lines[key].values() if row is not leader)

    def _key(self, row: Row[ItemT]) -> tuple[int, int]:
        return bisect_left(self._edges, row.length), row.priority


class PaddingMeter:
    """How much of what was computed was padding.

    Attributes:
        real_tokens: tokens of all rows so far.
        padded_tokens: tokens that were computed for them, padding included.
    """

    def __init__(self) -> None:
        self.real_tokens = 0
        self.padded_tokens = 0
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT_PASSES)

    def count(self, lengths: Sequence[int]) -> None:
        """A pass of rows of these lengths was computed."""
        real, padded = sum(lengths), max(lengths) * len(lengths)
        self.real_tokens += real
        self.padded_tokens += padded
        self._recent.append((real, padded))

    @property
    def waste(self) -> float:
        """Share of padding in all passes, 0 to 1; 0 before the first."""
        return _share(self.real_tokens, self.padded_tokens)

    @property
    def recent_waste(self) -> float:
        """The same over the last ``RECENT_PASSES`` passes."""
        return _share(sum(real for real, _ in self._recent), sum(padded for _, padded in self._recent))


def _share(real: int, padded: int) -> float:
    return 1 - real / padded if padded else 0.0
