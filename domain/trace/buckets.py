"""The latency buckets of the heat map."""

from bisect import bisect_left
from typing import NamedTuple

BOUNDS_MS = (100, 500, 1_000, 2_500, 10_000)
"""Upper bounds, the last bucket has none. The requirement (W17) names 0-100, 100-500 and above; answers of language
models mostly fall into the last, so that is divided further."""

BUCKETS = len(BOUNDS_MS) + 1

MINUTE_US, HOUR_US = 60_000_000, 3_600_000_000


class Coarse(NamedTuple):
    """A bucket of the requirement and the finer ones that make it up."""

    name: str
    buckets: tuple[int, ...]


COARSE = (Coarse("0-100", (0,)), Coarse("100-500", (1,)), Coarse(">500", (2, 3, 4, 5)))


def bucket_of(microseconds: int) -> int:
    """The bucket that a time falls into; a bound belongs to the bucket below it."""
    return bisect_left(BOUNDS_MS, microseconds / 1000)
