"""The page "Now" and the JSON that it asks for every second."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from redis.exceptions import RedisError

from domain.qos import QosClass
from gateway_admin.limits import limits_by_class
from gateway_admin.live import connect_for_page
from gateway_admin.live_page import state_names
from gateway_admin.models import State
from gateway_admin.now import SECOND_US, failing, figures_of, read_recent
from gateway_admin.queues import QueuesView, read_queues
from gateway_admin.switch import last_switches
from gateway_admin.trace_page import require_permission
from gateway_admin.trouble import find_troubles
from tenants.models import QOS_CHOICES
from tracing.clock import now_us
from tracing.store.recent import minutes_before

_EMPTY: QueuesView = {"models": [], "workers": [], "states": {}}
_HISTORY_MIN = 5


def now(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`now_state`."""
    require_permission(request)
    context = {
        **admin.site.each_context(request),
        "title": _("Now"),
        "classes": QOS_CHOICES,
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/now.html", context)


@never_cache
def now_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``error`` is empty while Valkey answers.

    With ``history`` in the query also requests/s and failures of the last full minutes, for a page that just opened.
    """
    require_permission(request)
    view, error = _read()
    limits, at_us = limits_by_class(settings.SLUICE), now_us()
    figures = figures_of(read_recent(at_us // SECOND_US))
    state: dict[str, Any] = {
        "figures": figures,
        "waiting": None if error else _waiting(view),
        "tolerated_ms": {qos_class: limit["tolerated_ms"] for qos_class, limit in limits.items()},
        "workers": view["workers"],
        "troubles": [*failing(figures), *find_troubles(view, limits, last_switches(view["states"]))],
        "error": error,
        "at": timezone.now().timestamp(),
    }
    if "history" in request.GET:
        state["minutes"] = [_minute(*minute) for minute in minutes_before(at_us, _HISTORY_MIN)]
    return JsonResponse(state)


def _read() -> tuple[QueuesView, str]:
    try:
        return read_queues(connect_for_page(settings.SLUICE.ready_url)), ""
    except (RedisError, OSError) as error:
        return _EMPTY, str(error)


def _waiting(view: QueuesView) -> dict[str, dict[str, int | None]]:
    """Requests of each class that wait, over all models, and how long the oldest has."""
    queues = [queue for model in view["models"] for queue in model["queues"]]
    found: dict[str, dict[str, int | None]] = {}
    for qos_class in QosClass:
        own = [queue for queue in queues if queue["qos_class"] == qos_class.value]
        waits_ms = [queue["oldest_wait_ms"] for queue in own if queue["oldest_wait_ms"] is not None]
        oldest_ms = max(waits_ms, default=None)
        found[qos_class.value] = {"count": sum(queue["waiting"] for queue in own), "oldest_ms": oldest_ms}
    return found


def _minute(starts_us: int, requests: int, errors: int) -> dict[str, float]:
    middle_s = starts_us / SECOND_US + 30
    return {"at": middle_s, "requests_per_s": requests / 60, "failed": errors / requests if requests else 0.0}


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language of the request."""
    return {
        "state": state_names(),
        "switch": dict(State.choices),
        "ms": _("%(number)d ms").replace("%(number)d", "{}"),
        "s": _("%(number)s s").replace("%(number)s", "{}"),
        "min": _("%(number)s min").replace("%(number)s", "{}"),
        "per_s": _("{count}/s"),
        "median": _("median {time}"),
        "of_minute": _("{failed} of {count} in the last minute, {refused} refused"),
        "oldest": _("oldest {waited}, tolerates {tolerated}"),
        "oldest_wait": _("the oldest for {waited}"),
        "nothing_waits": _("nothing waits"),
        "engines": _("{ready} of {all}"),
        "not_ready": _("not ready: {names}"),
        "all_ready": _("all are ready"),
        "prefix": _("{share} of the prompt tokens from the KV cache"),
        "no_lookups": _("no kept answer was looked for"),
        "running": _("{running} of {cap}"),
        "held": _("held to {cap} of {limit}: {why}"),
        "sampled": _("More requests end than are read: the figures are made of the latest ones."),
        "quiet": _("Nothing is wrong: queues are open and wait no longer than they tolerate, and requests succeed."),
        "last_minutes": _("{name}, last 5 minutes: now {now}, at most {most}"),
        "see": {"failing": _("Heat map"), "queues": _("Queues")},
    }
