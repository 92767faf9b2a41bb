"""LRU: what was not asked for longest goes first."""

from collections import OrderedDict
from collections.abc import Iterator

from domain.eviction.policy import Key


class Lru:
    """Least recently used; every step is O(1). See :class:`domain.eviction.policy.Policy`."""

    def __init__(self) -> None:
        self._held: OrderedDict[Key, None] = OrderedDict()

    def hit(self, key: Key) -> None:
        """A key that is held was asked for."""
        self._held.move_to_end(key)

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on."""
        self._held[key] = None

    def evict(self) -> Key:
        """Take out the key that was not asked for longest.

        Raises:
            KeyError: none is held.
        """
        return self._held.popitem(last=False)[0]

    def remove(self, key: Key) -> None:
        """A key is no longer held; unknown keys are ignored."""
        self._held.pop(key, None)

    def uses(self) -> Iterator[tuple[Key, int]]:
        """Every key in the order in which they go; how often each was used is not known."""
        return ((key, 1) for key in self._held)

    def recalled(self) -> Iterator[tuple[Key, int]]:
        """None: what went is forgotten."""
        return iter(())

    def recall(self, key: Key, uses: int) -> None:
        """Forget it."""

    def __len__(self) -> int:
        """Keys that are held."""
        return len(self._held)
