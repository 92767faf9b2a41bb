"""The page "Service map" and the JSON that it asks for every five seconds."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from domain.trace.buckets import MINUTE_US
from gateway_admin.service_map import OTHERS, map_of
from gateway_admin.trace_page import require_permission
from tracing.clock import now_us
from tracing.store.recent import LATEST, passed_since

_SECOND_US = 1_000_000
_PERIODS = [
    ("5", gettext_lazy("the last 5 minutes")),
    ("15", gettext_lazy("the last 15 minutes")),
    ("60", gettext_lazy("the last hour")),
]
_DEFAULT = "5"


class MapForm(forms.Form):
    """The choice of the map; it stands in its address."""

    minutes = forms.ChoiceField(choices=_PERIODS, required=False)

    @property
    def asked(self) -> str:
        """What was chosen; what is wrong in an address counts as not chosen."""
        return (self.cleaned_data.get("minutes") if self.is_valid() else "") or _DEFAULT


def service_map(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`service_map_state`."""
    require_permission(request)
    context = {
        **admin.site.each_context(request),
        "title": _("Service map"),
        "periods": _PERIODS,
        "minutes": MapForm(request.GET).asked,
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/service_map.html", context)


@never_cache
def service_map_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``sampled`` where only the latest requests of that time were read."""
    require_permission(request)
    at_us = now_us()
    since_us = at_us - int(MapForm(request.GET).asked) * MINUTE_US
    passed, sampled = passed_since(since_us)
    if sampled:
        since_us = passed[-1].started_us
    state: dict[str, Any] = {
        **map_of(passed, max(1.0, (at_us - since_us) / _SECOND_US)),
        "requests": len(passed),
        "sampled": sampled,
        "since": since_us / _SECOND_US,
        "at": at_us / _SECOND_US,
    }
    return JsonResponse(state)


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language of the request."""
    return {
        "kinds": {
            "client": _("Clients"),
            "gateway": _("Gateway"),
            "store": _("Store (Valkey)"),
            "broker": _("Celery broker"),
            "worker": _("Worker"),
            "engine": _("Engine"),
        },
        "others_mark": OTHERS,
        "others": {"gateway": _("other gateways"), "worker": _("other workers"), "engine": _("their engines")},
        "what": {
            "ask": _("request is read and checked"),
            "answer": _("answer to the client"),
            "admit": _("admission and back"),
            "back": _("way back, worker to gateway"),
            "ticket": _("ticket, gateway to worker"),
            "claim": _("claim and back"),
            "run": _("run, from the claim to the last token"),
        },
        "label": {
            "ask": _("read"),
            "answer": _("answer"),
            "admit": _("admit"),
            "back": _("back"),
            "ticket": _("ticket"),
            "claim": _("claim"),
            "run": _("run"),
        },
        "short": {
            "answer": _("answer to the client"),
            "admit": _("admission"),
            "back": _("way back to the gateway"),
            "ticket": _("ticket"),
            "claim": _("claim"),
        },
        "engine_of": _("engine of {name}"),
        "comma": _(", "),
        "ms": _("%(number)d ms").replace("%(number)d", "{}"),
        "s": _("%(number)s s").replace("%(number)s", "{}"),
        "min": _("%(number)s min").replace("%(number)s", "{}"),
        "per_s": _("{count}/s"),
        "failed": _("{count} failed"),
        "slow": _("slow hop"),
        "times": _("{times} x"),
        "calm": _("No hop takes 2 ms or more at the 95th percentile, and nothing fails."),
        "some_slow": _("2 ms or more at the 95th percentile: {hops}."),
        "some_fail": _("{count} requests failed."),
        "between": _("{count} requests that began from {since} to {until}."),
        "sampled": _("There were more: only the latest {most} are read.").replace("{most}", f"{LATEST:,}"),
        "map": _("Map of the services; the table below says the same in words"),
    }
