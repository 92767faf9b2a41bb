"""The in-flight cap: how many sequences an engine is given at once.

The engine's own limit says what fits at best. How many sequences run well depends on their lengths and on the machine,
and nobody knows that beforehand. So the cap falls by a factor when the engine runs out of KV cache or answers become
slower than their class allows, and rises by one while it is what holds requests back (additive increase, multiplicative
decrease: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989).
"""

import math
from dataclasses import dataclass

DECREASE = 0.85
"""Of 32 sequences the first decrease takes 5 away and four take half. A smaller factor would leave much of the engine
unused after one burst, a larger one would need many hold-offs to answer a lasting shortage."""
INCREASE = 1
HOLD_MS = 2_000
"""After a decrease nothing changes for so long: what runs already must end before its effect shows."""
GROW_MS = 500
FULL_KV_USE = 0.97


@dataclass(frozen=True, slots=True)
class CapSample:
    """How an engine fares.

    Attributes:
        now_ms: when; any clock that does not go back.
        in_flight: sequences that run.
        waiting: requests that wait for this engine's model.
        step_ms: time per output token of late; 0 while nothing ran.
        goal_ms: what it should be at most, for the most urgent class that runs; 0 for no goal.
        preemptions_total: sequences that lost their KV blocks since the engine started.
        kv_use: share of the KV cache in use, 0 to 1.
        reserved: sequences under the cap that what waits may not take, being kept for a more urgent class.
    """

    now_ms: float
    in_flight: int
    waiting: int
    step_ms: float
    goal_ms: float
    preemptions_total: int
    kv_use: float
    reserved: int = 0


class InFlightCap:
    """How many sequences one engine is given at once, between ``min_seqs`` and ``max_seqs``.

    Attributes:
        cap: the cap now; starts at ``max_seqs``.
        reason: why it is what it is, for an operator.
    """

    def __init__(self, max_seqs: int, min_seqs: int) -> None:
        self.max_seqs = max_seqs
        self.min_seqs = max(1, min(min_seqs, max_seqs))
        self.cap = max_seqs
        self._preemptions: int | None = None
        self._in_flight_before = 0
        self._decreased_ms = self._increased_ms = -math.inf
        self._now_ms = 0.0
        self._cause = ""

    def observe(self, sample: CapSample) -> None:
        """Take a sample in, a few times a second, and move the cap by it."""
        cause = self._pressure(sample)
        in_flight = max(sample.in_flight, self._in_flight_before)  # what a step time that lags behind was measured with
        self._in_flight_before = sample.in_flight
        self._now_ms = sample.now_ms
        if not sample.in_flight or sample.now_ms < self._decreased_ms + HOLD_MS:
            return
        if cause:
            self._decrease(min(in_flight, self.cap), cause)
        elif self._holds_back(sample) and sample.now_ms >= self._increased_ms + GROW_MS:
            self.cap = min(self.max_seqs, self.cap + INCREASE)
            self._increased_ms = sample.now_ms

    @property
    def reason(self) -> str:
        """Why the cap is what it is, in words for an operator."""
        if self.cap == self.max_seqs:
            return f"at the engine's limit of {self.max_seqs}"
        age_s = (self._now_ms - self._decreased_ms) / 1000
        return f"{self.cap} of {self.max_seqs}: {self._cause} {age_s:.0f} s ago"

    def _pressure(self, sample: CapSample) -> str:
        before, self._preemptions = self._preemptions, sample.preemptions_total
        if (before is not None and sample.preemptions_total > before) or sample.kv_use > FULL_KV_USE:
            return "the engine ran out of KV cache"
        if 0 < sample.goal_ms < sample.step_ms:
            return f"time per token was {sample.step_ms:.0f} ms, over the goal of {sample.goal_ms:.0f} ms,"
        return ""

    def _holds_back(self, sample: CapSample) -> bool:
        return sample.waiting > 0 and sample.in_flight + sample.reserved >= self.cap - 1

    def _decrease(self, in_flight: int, cause: str) -> None:
        # From what really ran, since a cap far above it limits nothing; but one odd sample costs half at most.
        lower = max(math.floor(in_flight * DECREASE), self.cap // 2, self.min_seqs)
        self.cap = min(self.cap, lower)
        self._decreased_ms, self._cause = self._now_ms, cause
