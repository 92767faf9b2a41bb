"""MQ: several LRU queues, by how often a key was used; who is not used again sinks (Zhou, Philbin and Li, 2001)."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from domain.eviction.policy import Key

QUEUES = 8
# So many keys that went are recalled for each that is held.
RECALLED = 4.0


@dataclass(slots=True)
class _Place:
    uses: int
    used_at: int
    queue: int
    leaves_at: int


class Mq:
    """Multi-queue; every step is O(1). See :class:`domain.eviction.policy.Policy`.

    A key used n times belongs into queue log2 n, ``QUEUES`` - 1 at most. The clock counts uses of any key: who was not
    used for as long as it takes most keys to return sinks by one queue. The lowest queue's oldest goes first, and how
    often it had been used is recalled.
    """

    def __init__(self, recalled: float = RECALLED) -> None:
        self._recalled, self._now = recalled, 0
        self._queues: list[OrderedDict[Key, None]] = [OrderedDict() for _ in range(QUEUES)]
        self._held: dict[Key, _Place] = {}
        self._gone: OrderedDict[Key, tuple[int, int]] = OrderedDict()  # uses, and when it was used last
        self._returns = Returns()

    def hit(self, key: Key) -> None:
        """A key that is held was asked for."""
        place = self._held[key]
        del self._queues[place.queue][key]
        self._enter(key, place.uses, place.used_at)

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on."""
        self._enter(key, *self._gone.pop(key, (0, 0)))

    def evict(self) -> Key:
        """Take out the oldest key of the lowest queue.

        Raises:
            KeyError: none is held.
        """
        queue = next((queue for queue in self._queues if queue), None)
        if queue is None:
            raise KeyError("none is held")
        bound = int(len(self._held) * self._recalled)
        key = queue.popitem(last=False)[0]
        place = self._held.pop(key)
        self._gone[key] = place.uses, place.used_at
        while len(self._gone) > bound:
            self._gone.popitem(last=False)
        return key

    def remove(self, key: Key) -> None:
        """A key is no longer held; unknown keys are ignored."""
        place = self._held.pop(key, None)
        if place is not None:
            del self._queues[place.queue][key]

    def uses(self) -> Iterator[tuple[Key, int]]:
        """Every key in the order in which they go if none is used, and how often it was used."""
        return ((key, self._held[key].uses) for queue in self._queues for key in queue)

    def recalled(self) -> Iterator[tuple[Key, int]]:
        """Keys that went and how often each was used, the first to be forgotten first."""
        return ((key, uses) for key, (uses, _used_at) in self._gone.items())

    def recall(self, key: Key, uses: int) -> None:
        """Know a key that is not held."""
        self._gone[key] = uses, self._now

    def __len__(self) -> int:
        """Keys that are held."""
        return len(self._held)

    def _enter(self, key: Key, uses: int, used_at: int) -> None:
        self._now += 1
        if uses:
            self._returns.add(self._now - used_at)
        queue = min((uses + 1).bit_length() - 1, QUEUES - 1)
        self._queues[queue][key] = None
        self._held[key] = _Place(uses + 1, self._now, queue, self._now + self._lifetime())
        self._sink()

    def _sink(self) -> None:
        for number in range(1, QUEUES):
            oldest = next(iter(self._queues[number]), None)
            if oldest is not None and self._held[oldest].leaves_at < self._now:
                del self._queues[number][oldest]
                self._queues[number - 1][oldest] = None
                place = self._held[oldest]
                place.queue, place.leaves_at = number - 1, self._now + self._lifetime()

    def _lifetime(self) -> int:
        return self._returns.usual or 4 * len(self._held)


class Returns:
    """After how many uses of any key a key is used again: a histogram that forgets.

    The paper takes the peak of these distances. Where they spread wide the peak says little, so it is the distance
    within which most have returned.

    Attributes:
        usual: within so many uses ``MOST`` of the keys that return have returned; 0 while that is not known.
    """

    MOST = 0.8
    _PARTS = 4  # buckets for each doubling
    _LOOK = 256
    _WINDOW = 8_192

    def __init__(self) -> None:
        self.usual = 0
        self._counts = [0.0] * (40 * self._PARTS)
        self._seen = 0

    def add(self, distance: int) -> None:
        """Take one distance, at least 1."""
        self._counts[int(self._PARTS * math.log2(max(1, distance)))] += 1
        self._seen += 1
        if self._seen % self._LOOK == 0:
            self.usual = self._find()
        if self._seen % self._WINDOW == 0:
            self._counts = [count / 2 for count in self._counts]

    def _find(self) -> int:
        wanted = self.MOST * sum(self._counts)
        bucket = next(number for number, count in enumerate(accumulate(self._counts)) if count >= wanted)
        return math.ceil(2 ** ((bucket + 1) / self._PARTS))
