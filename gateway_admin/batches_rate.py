"""How fast batches are worked off, measured while somebody looks.

Nothing keeps when a batch's requests ended, but its slices tell every two seconds how many have. So each process
remembers what it showed in the last minutes; a batch at which nobody has looked is judged since it began.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from threading import Lock

WINDOW_S = 300.0
MIN_S = 60.0
"""A rate over less says nothing."""
APART_S = 5.0
MAX_JOBS = 1_000

_FEW = 3
"""Fewer are expected now and then to be none."""

Point = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests that get their result.

    Attributes:
        per_s: so many a second.
        over_s: measured over so many seconds.
        is_recent: these are the last ones; else all since the batch began.
    """

    per_s: float
    over_s: float
    is_recent: bool

    @property
    def stands(self) -> bool:
        """Nothing has ended for as long as it was measured."""
        return self.per_s == 0


class RateMemory:
    """What one process saw. Threads may share it."""

    def __init__(self) -> None:
        self._points: OrderedDict[int, deque[Point]] = OrderedDict()
        self._lock = Lock()

    def note(self, job: int, at_s: float, ended: int) -> Point:
        """Remember how many requests of a batch have ended; return the oldest point of the last minutes."""
        with self._lock:
            points = self._points.setdefault(job, deque())
            self._points.move_to_end(job)
            if len(self._points) > MAX_JOBS:
                self._points.popitem(last=False)
            while points and (points[0][0] < at_s - WINDOW_S or points[0][1] > ended):
                points.popleft()
            if not points or at_s - points[-1][0] >= APART_S:
                points.append((at_s, ended))
            return points[0]


def rate_of(first: Point, now: Point, began_s: float) -> Rate | None:
    """How fast a batch is; None while that is not known.

    Args:
        first: the oldest point that is remembered.
        now: the present one.
        began_s: when its first request could be sent.
    """
    (at_s, ended), age_s = now, now[0] - began_s
    mean = ended / age_s if age_s > 0 else 0.0
    over_s, ended_since = at_s - first[0], ended - first[1]
    if over_s >= MIN_S and (ended_since or mean * over_s >= _FEW or not ended):
        return Rate(ended_since / over_s, over_s, is_recent=True)
    return Rate(mean, age_s, is_recent=False) if ended and age_s >= MIN_S / 2 else None
