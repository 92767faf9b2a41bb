"""How often each of many may do something, where nobody else is asked."""

from collections import OrderedDict
from collections.abc import Hashable


class Rate:
    """A bucket that refills evenly for each owner; it holds one second's worth, and at least one.

    Owners that have not come for long are forgotten, so it stays small; a forgotten one starts with a full bucket.
    """

    def __init__(self, per_s: float, max_owners: int = 10_000) -> None:
        self._per_s, self._most, self._max_owners = per_s, max(1.0, per_s), max_owners
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, owner: Hashable, now_s: float) -> bool:
        """Take one if there is one; ``now_s`` never goes back."""
        level, at_s = self._buckets.pop(owner, (self._most, now_s))
        level = min(self._most, level + (now_s - at_s) * self._per_s)
        may = level >= 1
        self._buckets[owner] = (level - may, now_s)
        if len(self._buckets) > self._max_owners:
            self._buckets.popitem(last=False)
        return may
