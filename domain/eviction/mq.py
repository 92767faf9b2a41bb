"""MQ: several LRU queues, by how often a key was used; who is not used again sinks (Zhou, Philbin and Li, 2001)."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from domain.eviction.policy import Key

QUEUES = 8
# How long a key stays in its queue unused, and how many keys that went are recalled; both for each key held.
LIFE = 4.0
RECALLED = 4.0


@dataclass(slots=True)
class _Place:
    uses: int
    queue: int
    leaves_at: int


class Mq:
    """Multi-queue; every step is O(1). See :class:`domain.eviction.policy.Policy`.

    A key used n times belongs into queue log2 n, ``QUEUES`` - 1 at most. The clock counts uses of any key: who was not
    used for ``life`` times as many as there are keys sinks by one queue. The lowest queue's oldest goes first, and how
    often it had been used is recalled.
    """

    def __init__(self, life: float = LIFE, recalled: float = RECALLED) -> None:
        self._life, self._recalled, self._now = life, recalled, 0
        self._queues: list[OrderedDict[Key, None]] = [OrderedDict() for _ in range(QUEUES)]
        self._held: dict[Key, _Place] = {}
        self._gone: OrderedDict[Key, int] = OrderedDict()

    def hit(self, key: Key) -> None:
        """A key that is held was asked for."""
        place = self._held[key]
        del self._queues[place.queue][key]
        self._enter(key, place.uses + 1)

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on."""
        self._enter(key, self._gone.pop(key, 0) + 1)

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
        self._gone[key] = self._held.pop(key).uses
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

    def __len__(self) -> int:
        """Keys that are held."""
        return len(self._held)

    def _enter(self, key: Key, uses: int) -> None:
        self._now += 1
        queue = min(uses.bit_length() - 1, QUEUES - 1)
        self._queues[queue][key] = None
        self._held[key] = _Place(uses, queue, self._now + self._lifetime())
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
        return int(len(self._held) * self._life) + 1
