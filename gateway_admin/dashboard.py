"""The admin's first page: is it well, how busy is it, what needs a hand."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from gateway_admin.live_page import live_or_error
from tenants.admin.figures import money
from tenants.admin.month_view import warning_line
from tenants.day import usage_of_day
from tenants.models import ApiKey, BudgetWarning, Tenant, UsageRecord
from tenants.month import month_bounds
from tenants.summary import summarise_usage

_SOON = timedelta(days=7)
_NAMED = 10


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the key figures to the context of the index page."""
    now = timezone.now()
    live, error = live_or_error()
    workers, today = live["workers"], usage_of_day(now)
    ending = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + _SOON)
    context["title"] = _("Overview")
    context["budgets"] = _budgets(request, now)
    context["figures"] = {
        "error": error,
        "workers": len(workers),
        "ready": sum(worker["state"] == "ready" for worker in workers),
        "running": sum(worker["running"] for worker in workers),
        "waiting": live["waiting"],
        "minute": summarise_usage(now - timedelta(minutes=1)),
        "today": today,
        "tenants": Tenant.objects.filter(active=True).count(),
        "keys_ending": ending.count(),
        "used_before": UsageRecord.objects.exists(),
        "cost_today": money(today.cost_nano),
        "model": settings.SLUICE.model_name,
        "base_url": request.build_absolute_uri("/v1"),
    }
    return context


def _budgets(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """Whose budgets of this month came to a bound: those that are used up first, then the latest."""
    if not request.user.has_perm("tenants.view_budgetwarning"):
        return {}
    warnings = BudgetWarning.objects.filter(month=month_bounds(now.date())[0].date())
    worst = warnings.select_related("tenant").order_by("bound", "-at", "-id")[:_NAMED]
    return {"count": warnings.count(), "rows": [{"tenant": row.tenant, **warning_line(row)} for row in worst]}
