"""The admin's first page: is it well, how busy is it, what needs a hand."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from gateway_admin.live_page import live_or_error
from tenants.models import ApiKey, Tenant, UsageRecord
from tenants.summary import summarise_usage

_SOON = timedelta(days=7)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the key figures to the context of the index page."""
    now = timezone.now()
    live, error = live_or_error()
    workers = live["workers"]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    ending = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + _SOON)
    context["title"] = _("Overview")
    context["figures"] = {
        "error": error,
        "workers": len(workers),
        "ready": sum(worker["state"] == "ready" for worker in workers),
        "running": sum(worker["running"] for worker in workers),
        "waiting": live["waiting"],
        "minute": summarise_usage(now - timedelta(minutes=1)),
        "today": summarise_usage(midnight),
        "tenants": Tenant.objects.filter(active=True).count(),
        "keys_ending": ending.count(),
        "used_before": UsageRecord.objects.exists(),
        "model": settings.SLUICE.model_name,
        "base_url": request.build_absolute_uri("/v1"),
    }
    return context
