"""What was used since some moment, in one query."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, Sum

from domain.outcome import Outcome
from tenants.models import UsageRecord
from tenants.rollup import COUNTED_AS_FAILED


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """Requests that finished, and their tokens; ``failed`` leaves out what clients did themselves."""

    requests: int
    completed: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


def summarise_usage(since: datetime, tenant_id: int | None = None) -> UsageSummary:
    """Sum up what finished at or after ``since``, of one tenant or of all."""
    rows = UsageRecord.objects.filter(finished_at__gte=since)
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    found = rows.aggregate(
        requests=Count("id"),
        completed=Count("id", filter=Q(outcome=Outcome.COMPLETED.value)),
        failed=Count("id", filter=Q(outcome__in=[outcome.value for outcome in COUNTED_AS_FAILED])),
        prompt_tokens=Sum("prompt_tokens", default=0),
        cached_tokens=Sum("cached_tokens", default=0),
        completion_tokens=Sum("completion_tokens", default=0),
    )
    return UsageSummary(**found)
