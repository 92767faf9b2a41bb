"""The last five minutes of one cache, from samples of its counters."""

import math
from collections import deque
from dataclasses import dataclass

from domain.eviction.k_rule import WINDOW_S


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of a cache at one moment, all since its start but ``used``.

    Attributes:
        at_s: when.
        used: used / max bytes, 0 to 1.
        hits: look-ups that hit.
        lookups: all look-ups.
        firsts: look-ups of keys that had not been asked for before, about.
    """

    at_s: float
    used: float
    hits: int
    lookups: int
    firsts: int


class Recent:
    """Samples of the window; what they say of it."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[Sample] = deque()

    def add(self, sample: Sample) -> None:
        """Take the latest sample; those that are too old go, but one that the counters are compared with."""
        self._samples.append(sample)
        begin_s = sample.at_s - self._window_s
        while len(self._samples) > 1 and self._samples[1].at_s <= begin_s:
            self._samples.popleft()

    def watermark(self) -> float | None:
        """95th percentile (nearest rank) of what was used; None without a sample."""
        if not self._samples:
            return None
        used = sorted(sample.used for sample in self._samples)
        return used[math.ceil(0.95 * len(used)) - 1]

    def hit_rate(self) -> float | None:
        """Hits of all look-ups; None if there were none."""
        lookups = self._grown("lookups")
        return self._grown("hits") / lookups if lookups else None

    def ceiling(self) -> float:
        """Share of look-ups that asked for something again: no cache hits more."""
        lookups = self._grown("lookups")
        return max(0.0, 1.0 - self._grown("firsts") / lookups) if lookups else 0.0

    def _grown(self, counter: str) -> int:
        if not self._samples:
            return 0
        grown: int = getattr(self._samples[-1], counter) - getattr(self._samples[0], counter)
        return grown
