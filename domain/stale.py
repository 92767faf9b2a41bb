"""When the last good answer may be given in place of an error."""

FAILURES = frozenset(
    {
        "engine_failed",
        "internal",
        "no_backend",
        "quarantined",
        "queue_draining",
        "store_unavailable",
        "timeout",
    }
)
"""Reasons of refusals (``gateway.errors.Refusal``) that are this side's fault. All others are the client's, a limit's,
or what it asked for itself, such as an answer from the cache only."""


def may_stand_in(status: int, reason: str | None, max_stale_s: int) -> bool:
    """Whether an old answer may be given where computing it ended so.

    Args:
        status: HTTP status of the error that the client would get; never one below 500.
        reason: why, as the error says it.
        max_stale_s: of the client's plan; 0 for never.
    """
    return max_stale_s > 0 and status >= 500 and reason in FAILURES


def is_recent(age_ms: int, max_stale_s: int) -> bool:
    """Whether an answer of this age is still good enough; one from the future (clocks differ) is."""
    return age_ms <= max_stale_s * 1000
