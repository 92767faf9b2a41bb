"""The clock by which moments are noted."""

import time


def now_us() -> int:
    """Microseconds since 1970 by this machine's clock, which may be set back while a request is under way."""
    return time.time_ns() // 1000
