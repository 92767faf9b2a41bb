"""Ids that were looked for in vain: remembered for a moment, and bounded for each tenant."""

from collections import OrderedDict
from collections.abc import Callable

KEEP_S = 5.0
MAX_KEPT = 10_000
MAX_TENANTS = 10_000
YOUNG_MS = 60_000
"""A younger id may belong to a prompt that is being written just now: that it is absent is not remembered."""


class AbsentIds:
    """Pairs of tenant and id that the database did not have, for ``KEEP_S``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[int, str], float] = OrderedDict()

    def __contains__(self, name: tuple[int, str]) -> bool:
        until = self._until.get(name)
        return until is not None and until > self._clock()

    def add(self, name: tuple[int, str], age_ms: int) -> None:
        """Remember that it is absent; ``age_ms`` is how old the id says it is, below 0 for one of the future."""
        if age_ms < YOUNG_MS:
            return
        self._until[name] = self._clock() + KEEP_S
        self._until.move_to_end(name)
        if len(self._until) > MAX_KEPT:
            self._until.popitem(last=False)


class MissLimit:
    """How many absent ids of one tenant may reach the database: a bucket that holds a second's worth."""

    def __init__(self, per_s: int, clock: Callable[[], float]) -> None:
        self._per_s, self._clock = per_s, clock
        self._levels: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def wait_ms(self, tenant_id: int) -> int:
        """In how many ms the tenant may cause another question; 0 for now."""
        level = self._level(tenant_id)
        return 0 if level >= 1 else max(1, round((1 - level) / self._per_s * 1000))

    def charge(self, tenant_id: int) -> None:
        """The database was asked in vain. What was asked at the same moment may take the bucket below zero."""
        self._levels[tenant_id] = (self._level(tenant_id) - 1, self._clock())
        self._levels.move_to_end(tenant_id)
        if len(self._levels) > MAX_TENANTS:
            self._levels.popitem(last=False)

    def _level(self, tenant_id: int) -> float:
        level, at_s = self._levels.get(tenant_id, (float(self._per_s), 0.0))
        return min(float(self._per_s), level + (self._clock() - at_s) * self._per_s)
