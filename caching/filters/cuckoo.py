"""A set that forgets: a cuckoo filter, which says "surely not" or "perhaps", in about two bytes a key."""

from scf import PyScalableCuckooFilter


class CuckooFilter:
    """Bounded by ``capacity`` keys; ``false_positives`` is the share of absent keys that it takes for present.

    Removing a key that was never added would remove another one's mark. So :meth:`remove` is for keys of which the
    caller knows for sure, from elsewhere, that they were added and not removed since.

    Attributes:
        size: keys in it, those added twice counted twice.
    """

    def __init__(self, capacity: int, false_positives: float = 0.003) -> None:
        self.capacity, self.size = capacity, 0
        self._marks = PyScalableCuckooFilter(capacity, false_positives)

    def __contains__(self, key: str) -> bool:
        return bool(self._marks.might_contain(key))

    @property
    def full(self) -> bool:
        """It takes no more within its bounds: make a new one."""
        return self.size >= self.capacity

    def add(self, key: str) -> None:
        """Add a key."""
        self._marks.insert(key)
        self.size += 1

    def remove(self, key: str) -> None:
        """Remove a key that was added."""
        self._marks.remove(key)
        self.size -= 1
