"""Whether a request of a bulk job is sent again, and when.

What is only full, used up or away will not stay so: the job waits for it, as long as it has time. What the request
itself is to blame for comes again and again, so it stands. In between are engines that failed: a few times more.
"""

UNAVAILABLE = frozenset({429, 503})
"""Statuses that say: later."""

UNLUCKY = frozenset({500, 502})
"""Statuses of something that broke, perhaps by chance."""

MAX_UNLUCKY = 3
"""So often a request is sent to engines, or through gateways, that break."""

FIRST_S = 0.5
LONGEST_S = 60.0
"""A budget that comes back in days may be raised by an operator in minutes."""


def wait_s(status: int, retry_after_s: float, tried: int, unlucky: int, *, asked_not_to: bool) -> float | None:
    """Seconds until a request is sent again; None if its answer stands.

    Args:
        status: HTTP status of the answer.
        retry_after_s: what the answer says; 0 if it says nothing.
        tried: how often it was sent, at least 1.
        unlucky: how often of those something broke.
        asked_not_to: the answer says that it is not to be sent again: because that would take longer than clients
            wait, or because it would never help.
    """
    if not (status in UNAVAILABLE or status in UNLUCKY):
        return None
    if (status in UNLUCKY and unlucky >= MAX_UNLUCKY) or (asked_not_to and retry_after_s <= LONGEST_S):
        return None
    backoff: float = min(LONGEST_S, FIRST_S * 2 ** min(tried - 1, 16))
    return min(LONGEST_S, max(retry_after_s, backoff))
