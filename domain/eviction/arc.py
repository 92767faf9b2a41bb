"""ARC: keys used once, keys used again, and shares of the two that follow what returns (Megiddo and Modha, 2003)."""

from collections import OrderedDict
from collections.abc import Iterator

from domain.eviction.policy import Key

_Order = OrderedDict[Key, None]


class Arc:
    """Adaptive replacement; every step is O(1). See :class:`domain.eviction.policy.Policy`.

    Of c keys, as many as were held at the latest eviction, the list of those used once should have :attr:`wanted_once`;
    a key that returns after it went from that list raises the share, one that went from the other list lowers it. As
    many keys again are recalled.

    Attributes:
        wanted_once: keys that the list of those used once should have, 0 to c.
    """

    def __init__(self) -> None:
        self.wanted_once = 0.0
        self._once: _Order = OrderedDict()
        self._again: _Order = OrderedDict()
        self._gone_once: _Order = OrderedDict()
        self._gone_again: _Order = OrderedDict()
        self._size = 0

    def hit(self, key: Key) -> None:
        """A key that is held was asked for: it was used again."""
        self._once.pop(key, None)
        self._again[key] = None
        self._again.move_to_end(key)

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on; one that is recalled counts as used again."""
        if key in self._gone_once:
            step = max(1.0, len(self._gone_again) / len(self._gone_once))
            self.wanted_once = min(self._size, self.wanted_once + step)
            del self._gone_once[key]
            self._again[key] = None
        elif key in self._gone_again:
            step = max(1.0, len(self._gone_once) / len(self._gone_again))
            self.wanted_once = max(0.0, self.wanted_once - step)
            del self._gone_again[key]
            self._again[key] = None
        else:
            self._once[key] = None

    def evict(self) -> Key:
        """Take out the oldest key of the list that is above its share.

        Raises:
            KeyError: none is held.
        """
        self._size = max(1, len(self))
        if self._once and (len(self._once) > self.wanted_once or not self._again):
            key = self._once.popitem(last=False)[0]
            self._gone_once[key] = None
        else:
            key = self._again.popitem(last=False)[0]
            self._gone_again[key] = None
        self._forget()
        return key

    def remove(self, key: Key) -> None:
        """A key is no longer held; unknown keys are ignored."""
        self._once.pop(key, None)
        self._again.pop(key, None)

    def uses(self) -> Iterator[tuple[Key, int]]:
        """Every key with 1 (once) or 2 (again), each list in its order."""
        yield from ((key, 1) for key in self._once)
        yield from ((key, 2) for key in self._again)

    def recalled(self) -> Iterator[tuple[Key, int]]:
        """Keys that went, with 1 (once) or 2 (again)."""
        yield from ((key, 1) for key in self._gone_once)
        yield from ((key, 2) for key in self._gone_again)

    def recall(self, key: Key, uses: int) -> None:
        """Know a key that is not held."""
        (self._gone_again if uses > 1 else self._gone_once)[key] = None

    def __len__(self) -> int:
        """Keys that are held."""
        return len(self._once) + len(self._again)

    def _forget(self) -> None:
        # As in the paper: those used once, held or gone, are c at most; all together 2 c.
        while self._gone_once and len(self._once) + len(self._gone_once) > self._size:
            self._gone_once.popitem(last=False)
        while self._gone_again and len(self) + len(self._gone_once) + len(self._gone_again) > 2 * self._size:
            self._gone_again.popitem(last=False)
