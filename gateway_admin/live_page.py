"""The page "Engines" and the JSON that it asks for every two seconds."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from redis.exceptions import RedisError

from gateway_admin.live import LiveView, SlotsView, connect_for_page, read_live
from gateway_admin.models import State
from tenants.models import Tenant
from tenants.summary import summarise_usage

_EMPTY: LiveView = {"gateways": [], "workers": [], "waiting": 0, "slots": []}


def live_or_error() -> tuple[LiveView, str]:
    """Read the live state; the second value says why it is empty when Valkey does not answer."""
    try:
        return read_live(connect_for_page(settings.SLUICE.ready_url)), ""
    except (RedisError, OSError) as error:
        return _EMPTY, str(error)


def engines(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`engines_state`."""
    context = {
        **admin.site.each_context(request),
        "title": _("Engines"),
        "words": {"state": state_names(), "switch": dict(State.choices), "no_limit": _("none set")},
    }
    return TemplateResponse(request, "operators/engines.html", context)


@never_cache
def engines_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``error`` is empty while Valkey answers."""
    live, error = live_or_error()
    minute = summarise_usage(timezone.now() - timedelta(minutes=1))
    state: dict[str, Any] = {
        **live,
        "slots": _slots(live["slots"]),
        "error": error,
        "at": timezone.now().timestamp(),
        "last_minute": {
            "requests": minute.requests,
            "failed": minute.failed,
            "prompt_tokens": minute.prompt_tokens,
            "completion_tokens": minute.completion_tokens,
        },
    }
    return JsonResponse(state)


def _slots(slots: list[SlotsView]) -> list[dict[str, Any]]:
    rows = Tenant.objects.filter(pk__in=[slot["tenant"] for slot in slots])
    known = {pk: (slug, limit) for pk, slug, limit in rows.values_list("pk", "slug", "plan__max_concurrent")}
    named = []
    for slot in slots:
        slug, limit = known.get(slot["tenant"], (f"#{slot['tenant']}", None))
        named.append({"tenant": slug, "running": slot["running"], "limit": limit})
    return named


def state_names() -> dict[str, str]:
    """Name the states of a worker."""
    return {
        "starting": _("Starting"),
        "probing": _("Checking"),
        "ready": _("Ready"),
        "draining": _("Finishing"),
        "failed": _("Failed"),
    }
