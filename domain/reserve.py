"""The reserve: sequences of an engine that less urgent classes leave free, so that P0 need not wait for one (W3)."""

import math

HALF_LIFE_MS = 30_000
FORGET_MS = 120_000


class P0Reserve:
    """Follows P0's demand on one engine: nothing is kept for requests that do not come.

    Keeps the peak of P0's sequences in flight, which halves every ``HALF_LIFE_MS``, and forgets P0 when none ran for
    ``FORGET_MS``.
    """

    def __init__(self, max_seqs: int, share: float) -> None:
        self.most = _seats(max_seqs, share)
        self._peak = 0.0
        self._observed_ms: float | None = None
        self._last_p0_ms = -math.inf

    def observe(self, now_ms: float, p0_in_flight: int) -> None:
        """Take in how many sequences P0 runs now; any clock that does not go back."""
        if self._observed_ms is not None:
            self._peak *= 0.5 ** ((now_ms - self._observed_ms) / HALF_LIFE_MS)
        self._observed_ms = now_ms
        self._peak = max(self._peak, p0_in_flight)
        if p0_in_flight:
            self._last_p0_ms = now_ms

    def seats(self, p0_in_flight: int) -> int:
        """Sequences to keep free for P0 beside those it runs, as of the last observation.

        Enough for P0 to reach its recent peak again and one more; at least 1 and at most ``most`` while P0 comes.
        """
        if self._observed_ms is None or self._observed_ms - self._last_p0_ms >= FORGET_MS:
            return 0
        return min(self.most, max(1, math.ceil(self._peak) + 1 - p0_in_flight))


def background_seats(max_seqs: int, share: float) -> int:
    """Sequences that P2 leaves free for the more urgent classes: the share of all, but at least 1 if there are two."""
    return _seats(max_seqs, share)


def _seats(max_seqs: int, share: float) -> int:
    """``share`` of ``max_seqs``, rounded down; at least 1 unless the share is 0, and never all of them."""
    if share <= 0 or max_seqs < 2:
        return 0
    return max(1, min(max_seqs - 1, math.floor(share * max_seqs + 1e-9)))  # 0.29 * 100 is 28.999...
