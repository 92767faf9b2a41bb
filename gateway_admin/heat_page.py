"""The page "Heat map", the JSON that it asks for again and again, and what is behind one of its cells."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from domain.trace.buckets import BOUNDS_MS, BUCKETS, COARSE, HOUR_US, MINUTE_US
from gateway_admin.moments import from_us
from gateway_admin.trace_page import require_permission, summary
from gateway_admin.wording import duration
from tracing.clock import now_us
from tracing.models import RequestSum
from tracing.store.heat import Heat, Span, last, read_heat
from tracing.store.heat_cell import LATEST, NEWEST, Behind, Cell, read_cell

_SECOND_US, _DAY_US = 1_000_000, 24 * HOUR_US
_LENGTHS_US = {
    "15m": 15 * MINUTE_US,
    "1h": HOUR_US,
    "3h": 3 * HOUR_US,
    "24h": _DAY_US,
    "7d": 7 * _DAY_US,
    "30d": 30 * _DAY_US,
}
_PERIODS = [
    ("15m", gettext_lazy("the last 15 minutes")),
    ("1h", gettext_lazy("the last hour")),
    ("3h", gettext_lazy("the last 3 hours")),
    ("24h", gettext_lazy("the last 24 hours")),
    ("7d", gettext_lazy("the last 7 days")),
    ("30d", gettext_lazy("the last 30 days")),
]
_MEASURES = [("duration", gettext_lazy("Whole time")), ("ttft", gettext_lazy("Time to first token"))]
_MEASURE_OF = {"duration": RequestSum.Measure.DURATION, "ttft": RequestSum.Measure.TTFT}
_REFRESH_MS = {RequestSum.Period.MINUTE: 5_000, RequestSum.Period.HOUR: 30_000}
_LAST = BUCKETS - 1
_COARSE_ENDS = [(one.buckets[0], one.buckets[-1]) for one in COARSE]
_FINE_ENDS = [(bucket, bucket) for bucket in range(BUCKETS)]
_ANY = [*{(0, _LAST), *_COARSE_ENDS, *_FINE_ENDS}]


class HeatForm(forms.Form):
    """The choices of the map; all of them stand in its address, and none has to."""

    period = forms.ChoiceField(choices=_PERIODS, required=False)
    measure = forms.ChoiceField(choices=_MEASURES, required=False)
    model = forms.CharField(max_length=200, required=False)
    split = forms.BooleanField(required=False)
    at = forms.IntegerField(min_value=1, max_value=2**34, required=False)


class CellForm(HeatForm):
    """Likewise of a cell: buckets are named by the first and the last of them, ``others`` are all but the top."""

    buckets = forms.ChoiceField(choices=[(f"{first}-{end}", "") for first, end in _ANY], required=False)
    others = forms.BooleanField(required=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen; ``at`` is a moment in seconds with which the map ends, 0 for one that goes on."""

    period: str
    measure: str
    model: str
    split: bool
    at: int

    @property
    def span(self) -> Span:
        """The time that is shown."""
        return last(_LENGTHS_US[self.period], self.at_us)

    @property
    def at_us(self) -> int:
        """Its moment, or this one."""
        return self.at * _SECOND_US or now_us()

    def address(self, page: str, **more: str) -> str:
        """The page with these choices."""
        asked = {"period": self.period, "measure": self.measure, "model": self.model, "split": self.split and "on"}
        chosen = {name: value for name, value in {**asked, "at": self.at}.items() if value}
        return f"{reverse(page)}?{urlencode({**chosen, **more})}"


def heat_map(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`heat_state`."""
    require_permission(request)
    choice = _choice(HeatForm(request.GET))
    context = {
        **admin.site.each_context(request),
        "title": _("Heat map"),
        "choice": choice,
        "periods": _PERIODS,
        "measures": _MEASURES,
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/heat_map.html", context)


@never_cache
def heat_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``refresh_ms`` is 0 for a map that stands still."""
    require_permission(request)
    choice = _choice(HeatForm(request.GET))
    span = choice.span
    heat: Heat = read_heat(span, _MEASURE_OF[choice.measure], choice.model)
    at_us = choice.at_us
    state: dict[str, Any] = {
        **heat,
        "since": span.since_us / _SECOND_US,
        "until": (span.until_us if choice.at else at_us) / _SECOND_US,
        "at": at_us / _SECOND_US,
        "refresh_ms": 0 if choice.at else _REFRESH_MS[span.period],
        "used_before": bool(heat["rows"]) or RequestSum.objects.exists(),
    }
    return JsonResponse(state)


@never_cache
def heat_cell(request: HttpRequest) -> HttpResponse:
    """The requests behind one cell, one row or one column.

    Raises:
        Http404: the address names no cell.
    """
    require_permission(request)
    form = CellForm(request.GET)
    if not form.is_valid():
        raise Http404
    choice, cell = _choice(form), _cell(form, request.GET)
    behind: Behind = read_cell(cell)
    context = {
        **admin.site.each_context(request),
        "title": _title(cell),
        "choice": choice,
        "measure": dict(_MEASURES)[choice.measure],
        "back": choice.address("heat-map"),
        "live": Choice(choice.period, choice.measure, choice.model, choice.split, 0).address("heat-map"),
        "counted": behind.counted,
        "since": from_us(behind.counted.since_us),
        "until": from_us(behind.counted.until_us),
        "looked_at": behind.looked_at,
        "latest": LATEST,
        "newest": NEWEST,
        "instances": [_instance(one._asdict()) for one in behind.instances],
        "rows": [summary(row) for row in behind.newest],
        "days": settings.SLUICE.trace_days,
    }
    return TemplateResponse(request, "operators/heat_cell.html", context)


def _choice(form: HeatForm) -> Choice:
    """What was chosen; what is wrong in an address counts as not chosen."""
    form.is_valid()
    asked = form.cleaned_data
    return Choice(
        asked.get("period") or "1h",
        asked.get("measure") or "duration",
        asked.get("model") or "",
        bool(asked.get("split")),
        asked.get("at") or 0,
    )


def _cell(form: CellForm, query: QueryDict) -> Cell:
    asked, choice = form.cleaned_data, _choice(form)
    span, measure = choice.span, _MEASURE_OF[choice.measure]
    first, _dash, end = (asked["buckets"] or f"0-{_LAST}").partition("-")
    return Cell(
        span,
        measure,
        (int(first), int(end)),
        query.get("tenant"),
        _top(span, measure, choice.model) if asked["others"] else (),
        choice.model,
    )


def _top(span: Span, measure: RequestSum.Measure, model: str) -> tuple[str, ...]:
    return tuple(row["tenant"] for row in read_heat(span, measure, model)["rows"])


def _title(cell: Cell) -> str:
    who = _("Other tenants") if cell.without else _("All tenants") if cell.tenant is None else cell.tenant
    return _("Heat map: %(who)s, %(time)s") % {"who": who or _("No valid key"), "time": _bucket_name(*cell.buckets)}


def _instance(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "share": 100 * found["errors"] / found["requests"]}


def _bucket_name(first: int, end: int) -> str:
    """Name the time between the lower bound of a bucket and the upper one of another."""
    if (first, end) == (0, _LAST):
        return _("any time")
    if end == _LAST:
        return _("over %(time)s") % {"time": duration(BOUNDS_MS[first - 1])}
    if first == 0:
        return _("up to %(time)s") % {"time": duration(BOUNDS_MS[end])}
    return f"{duration(BOUNDS_MS[first - 1])} – {duration(BOUNDS_MS[end])}"


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language of the request."""
    return {
        "columns": {
            "coarse": [{"buckets": list(ends), "name": _bucket_name(*ends)} for ends in _COARSE_ENDS],
            "fine": [{"buckets": list(ends), "name": _bucket_name(*ends)} for ends in _FINE_ENDS],
        },
        "others": _("{count} other tenants"),
        "nobody": _("No valid key"),
        "all": _("All tenants"),
        "total": _("Total"),
        "failed": _("{share} failed"),
        "between": _("Requests that began from {since} to {until}."),
        "stands": _("The map ends at {until} and does not go on."),
    }
