"""LRU-K: the key goes first whose K-th last use is longest ago (O'Neil, O'Neil and Weikum, 1993)."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from domain.eviction.policy import Key

MAX_K = 5
# Keys that went are recalled: without it a key that returns after each eviction would always look new.
RECALLED = 2.0

Rank = tuple[int, int]


class LruK:
    """Least recently K-th used; a key that was used less than K times goes before all others, in the order of LRU.

    The last ``MAX_K`` uses of each key are known whatever K is, so a change of K loses nothing. A rank only grows while
    K stays, so the heap may hold old ones: a use costs O(1), an eviction O(log n) amortised. Raising K costs O(n).
    """

    def __init__(self, k: int, recalled: float = RECALLED) -> None:
        """Make an empty one.

        Args:
            k: which use counts, 1 (that is LRU) to ``MAX_K``.
            recalled: so many keys that went are recalled for each that is held.

        Raises:
            ValueError: no such ``k``.
        """
        self._held: dict[Key, list[int]] = {}  # uses, the latest first
        self._gone: OrderedDict[Key, list[int]] = OrderedDict()
        self._heap: list[tuple[Rank, Key]] = []
        self._recalled, self._now = recalled, 0
        self._k = 1
        self.k = k

    @property
    def k(self) -> int:
        """Which use counts."""
        return self._k

    @k.setter
    def k(self, k: int) -> None:
        if not 1 <= k <= MAX_K:
            raise ValueError(k)
        rebuild, self._k = k > self._k, k  # with a smaller K every rank grows or stays
        if rebuild:
            self._rebuild()

    def hit(self, key: Key) -> None:
        """A key that is held was asked for."""
        self._use(self._held[key])

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on."""
        uses = self._held[key] = self._gone.pop(key, [])
        self._use(uses)
        heapq.heappush(self._heap, (self._rank(uses), key))
        if len(self._heap) > 2 * len(self._held) + 64:  # many were removed, and not by eviction
            self._rebuild()

    def evict(self) -> Key:
        """Take out the key whose K-th last use is longest ago.

        Raises:
            KeyError: none is held.
        """
        while self._heap:
            rank, key = self._heap[0]
            uses = self._held.get(key)
            now = None if uses is None else self._rank(uses)
            if uses is None or now is None:
                heapq.heappop(self._heap)
            elif now != rank:
                heapq.heapreplace(self._heap, (now, key))
            else:
                heapq.heappop(self._heap)
                self._recall(key, uses)
                return key
        raise KeyError("none is held")

    def remove(self, key: Key) -> None:
        """A key is no longer held; unknown keys are ignored."""
        self._held.pop(key, None)

    def uses(self) -> Iterator[tuple[Key, int]]:
        """Every key in the order in which they go, and how often it was used, ``MAX_K`` at most."""
        ordered = sorted(self._held.items(), key=lambda item: self._rank(item[1]))
        return ((key, len(uses)) for key, uses in ordered)

    def recalled(self) -> Iterator[tuple[Key, int]]:
        """Keys that went and how often each was used, ``MAX_K`` at most, the first to be forgotten first."""
        return ((key, len(uses)) for key, uses in self._gone.items())

    def recall(self, key: Key, uses: int) -> None:
        """Know a key that is not held; its uses count as the latest of all."""
        known: list[int] = []
        for _ in range(min(uses, MAX_K)):
            self._use(known)
        self._gone[key] = known

    def __len__(self) -> int:
        """Keys that are held."""
        return len(self._held)

    def _use(self, uses: list[int]) -> None:
        self._now += 1
        uses.insert(0, self._now)
        del uses[MAX_K:]

    def _rank(self, uses: list[int]) -> Rank:
        return (uses[self._k - 1] if len(uses) >= self._k else 0), uses[0]

    def _rebuild(self) -> None:
        self._heap = [(self._rank(uses), key) for key, uses in self._held.items()]
        heapq.heapify(self._heap)

    def _recall(self, key: Key, uses: list[int]) -> None:
        bound = int(len(self._held) * self._recalled)
        del self._held[key]
        self._gone[key] = uses
        while len(self._gone) > bound:
            self._gone.popitem(last=False)
