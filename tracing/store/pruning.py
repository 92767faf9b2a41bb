"""Forgetting requests that are too old, a few at a time so that nobody waits for it."""

import time

from tracing.models import RequestSum, StoredRequest

AT_ONCE = 5_000
MINUTES_KEPT_US = 3 * 3_600_000_000
"""Sums by minute serve the live heat map alone."""

HOURS_KEPT_US = 90 * 86_400_000_000


def prune(now_us: int, keep_us: int, budget_s: float = 1.0) -> int:
    """Delete requests that began ``keep_us`` ago and longer, for about ``budget_s``; returns how many.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    end, deleted = time.monotonic() + budget_s, 0
    while time.monotonic() < end:
        old = StoredRequest.objects.filter(started_us__lt=now_us - keep_us).order_by("started_us")
        ids = list(old.values_list("id", flat=True)[:AT_ONCE])
        deleted += StoredRequest.objects.filter(id__in=ids)._raw_delete(StoredRequest.objects.db) if ids else 0
        if len(ids) < AT_ONCE:
            break
    RequestSum.objects.filter(period=RequestSum.Period.MINUTE, starts_us__lt=now_us - MINUTES_KEPT_US).delete()
    RequestSum.objects.filter(period=RequestSum.Period.HOUR, starts_us__lt=now_us - HOURS_KEPT_US).delete()
    return deleted
