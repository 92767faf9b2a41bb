"""How long a request would wait in a queue, judged by those that were there before it."""

from collections.abc import Sequence
from statistics import median

_PARTS = 10
_LEAST_MS, _MOST_MS = 1_000, 60_000


def expected_wait_ms(latest_waits_ms: Sequence[int], oldest_ms: int) -> int:
    """How long who enters now may expect to wait.

    Args:
        latest_waits_ms: how long those waited that were taken last.
        oldest_ms: how long the oldest of those that wait has waited: the wait is no shorter than that.
    """
    return max(round(median(latest_waits_ms)) if latest_waits_ms else 0, oldest_ms)


def come_back_ms(expected_ms: int) -> int:
    """When to try a full queue again: once a tenth of what waits has gone, between a second and a minute."""
    return min(_MOST_MS, max(_LEAST_MS, expected_ms // _PARTS))
