"""Into how many slices a bulk job is cut.

More slices run on more bulk processes at once; each costs a message, and as the header of a chord some milliseconds
(19 for one, 134 for 16, measured). Few lines are not worth several.
"""

import math

MAX_SLICES = 16
MIN_LINES = 50


def lines_of_a_slice(total: int) -> int:
    """Lines of each slice, the last one apart, of a job with ``total`` lines (at least one)."""
    return max(MIN_LINES, math.ceil(total / MAX_SLICES))
