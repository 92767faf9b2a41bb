"""Quantiles of what was measured."""

import math
from collections.abc import Iterable


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that ``share`` (0 to 1) of all values do not pass; NaN if there is none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
