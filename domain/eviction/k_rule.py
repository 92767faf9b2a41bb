"""The rule of the memory watermark: which K of LRU-K fits how full the memory is (W11)."""

from dataclasses import dataclass
from enum import StrEnum

STEPS = (2, 3, 5)
# Used / max, 95th percentile of the last five minutes: below the first bound K = 2, below the second 3, else 5.
BOUNDS = (0.70, 0.85)
WINDOW_S = 300.0
LEAST_HIT_RATE = 0.85
SLOW_EVICTION_S = 0.010
# As long as the window: when tuning goes on nothing of the slow time is in it.
PAUSE_S = WINDOW_S
# So far beyond a bound, and so long after the last change, before K changes again.
MARGIN = 0.02
REST_S = 60.0


class Why(StrEnum):
    """What led to K."""

    START = "start"
    WATERMARK = "watermark"
    HIT_RATE = "hit_rate"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rule looks at.

    Attributes:
        watermark: 95th percentile of used / max, 0 to 1; None while unknown.
        hit_rate: hits of all look-ups in the window, 0 to 1; None while there were none.
        ceiling: share of look-ups that any cache could have hit, 0 to 1.
        slowest_eviction_s: since the last look.
    """

    watermark: float | None
    hit_rate: float | None
    ceiling: float
    slowest_eviction_s: float


class KRule:
    """Watermark and hit rate in, K out; it changes seldom and by a margin.

    A hit rate below ``LEAST_HIT_RATE`` lowers K by one step. Whole prompts seldom repeat, so that bound would hold for
    no cache; by default the rate is taken relative to the ceiling of the traffic. ``literal`` takes it as it is.

    Attributes:
        k: in force.
        why: what led to it.
        paused_until_s: nothing changes before, after an eviction that was slow; on the clock of :meth:`look`.
    """

    def __init__(self, *, literal: bool = False) -> None:
        self.k, self.why = STEPS[0], Why.START
        self.paused_until_s = float("-inf")
        self._literal = literal
        self._band, self._is_low = 0, False
        self._changed_at_s = float("-inf")

    def look(self, seen: Seen, now_s: float) -> bool:
        """Look at the figures; True if K changed."""
        if seen.slowest_eviction_s > SLOW_EVICTION_S:
            self.paused_until_s = now_s + PAUSE_S
        if now_s < self.paused_until_s or seen.watermark is None or now_s - self._changed_at_s < REST_S:
            return False
        self._band = self._next_band(seen.watermark)
        self._is_low = self._next_low(seen)
        k = STEPS[max(0, self._band - self._is_low)]
        if k == self.k:
            return False
        self.k, self._changed_at_s = k, now_s
        self.why = Why.HIT_RATE if self._is_low else Why.WATERMARK
        return True

    def is_paused(self, now_s: float) -> bool:
        """True while a slow eviction holds the rule still."""
        return now_s < self.paused_until_s

    def _next_band(self, watermark: float) -> int:
        band = sum(watermark >= bound for bound in BOUNDS)
        if band > self._band:
            return max(self._band, sum(watermark >= bound + MARGIN for bound in BOUNDS))
        return min(self._band, sum(watermark >= bound - MARGIN for bound in BOUNDS))

    def _next_low(self, seen: Seen) -> bool:
        rate = self.compared_rate(seen)
        if rate is None:
            return self._is_low
        return rate < LEAST_HIT_RATE + (MARGIN if self._is_low else 0.0)

    def compared_rate(self, seen: Seen) -> float | None:
        """The hit rate that the rule compares; None while there is none."""
        if seen.hit_rate is None or self._literal:
            return seen.hit_rate
        return min(1.0, seen.hit_rate / seen.ceiling) if seen.ceiling > 0 else None
