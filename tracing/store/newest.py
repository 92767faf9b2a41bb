"""The newest requests of a selection, read along the right index on every database."""

from django.db.models import QuerySet

from tracing.models import StoredRequest

INDEXED = ("tenant", "model_version", "worker_id", "outcome")
"""Columns that have an index with ``recency_us``."""


def newest(
    query: "QuerySet[StoredRequest]", from_us: int = 0, to_us: int = 0, *, column: str = ""
) -> "QuerySet[StoredRequest]":
    """Bound a query in time, and sort it newest first.

    A planner that only knows how frequent a value is takes "the newest fifty of a version" for fifty rows near the end
    of the index of time, and reads millions where that version ended days ago. So what is compared with a value is
    sorted by ``recency_us``, which only the indexes of these columns hold.

    Args:
        query: what is read.
        from_us, to_us: when the requests began, microseconds since 1970; 0 for no bound.
        column: one of ``INDEXED`` that the query compares with a value, or "".
    """
    if column not in INDEXED:
        bounds = {"started_us__gte": from_us, "started_us__lt": to_us}
        return query.filter(**{name: value for name, value in bounds.items() if value}).order_by("-started_us")
    bounds = {"recency_us__lte": -from_us, "recency_us__gt": -to_us}
    return query.filter(**{name: value for name, value in bounds.items() if value}).order_by("recency_us")
