"""Chooses the policy that hits most, by the ghosts; not for a difference that may be chance."""

import math

from domain.eviction.ghost import Ghosts

# A better one must hit this much more, in parts of the hits and in standard deviations of what chance does.
MARGIN = 0.02
DEVIATIONS = 2.0
# Sampled requests before the first choice, and between two.
REST_REQUESTS = 512


class Chooser:
    """Looks at the ghosts now and then."""

    def __init__(self, ghosts: Ghosts) -> None:
        self._ghosts = ghosts
        self._changed_at = 0

    def look(self, current: str) -> str:
        """The policy to use: ``current`` unless another one is surely better."""
        if self._ghosts.sampled - self._changed_at < REST_REQUESTS:
            return current
        hits = self._ghosts.hits
        best = max(hits, key=lambda name: hits[name])
        if hits[best] - hits[current] <= self._least_lead(hits[current]):
            return current
        self._changed_at = self._ghosts.sampled
        return best

    @staticmethod
    def _least_lead(hits: float) -> float:
        return max(MARGIN * hits, DEVIATIONS * math.sqrt(hits) * 0.2)
