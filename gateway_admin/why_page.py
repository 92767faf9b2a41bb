"""The page "Why slow": the attribution tree of a selection, alone or beside another one."""

from dataclasses import replace
from typing import Any, TypedDict
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from domain.trace.attribution import DURATION, TTFT, Change, Node, Tree, attribute, compare
from gateway_admin.moments import from_us, parse_moment
from gateway_admin.stage_names import part_names
from gateway_admin.trace_page import require_permission
from tenants.models.choices import QOS_CHOICES
from tracing.clock import now_us
from tracing.store.reading import MAX_SAMPLES, Selection, samples

_MINUTE_US = 60_000_000
_PERIODS = [
    ("5", gettext_lazy("the last 5 minutes")),
    ("15", gettext_lazy("the last 15 minutes")),
    ("60", gettext_lazy("the last hour")),
    ("1440", gettext_lazy("the last 24 hours")),
]
_DEFAULT_PERIOD = "15"
_FEW = 20


class WhyForm(forms.Form):
    """Which requests, and what they are compared with."""

    measure = forms.ChoiceField(
        choices=[(TTFT, gettext_lazy("Time to first token")), (DURATION, gettext_lazy("Whole time"))], required=False
    )
    period = forms.ChoiceField(choices=_PERIODS, required=False)
    since = forms.CharField(max_length=30, required=False)
    until = forms.CharField(max_length=30, required=False)
    tenant = forms.CharField(max_length=64, required=False)
    qos_class = forms.ChoiceField(choices=[("", gettext_lazy("every class")), *QOS_CHOICES], required=False)
    model_version = forms.CharField(max_length=64, required=False)
    worker = forms.CharField(max_length=64, required=False)
    against = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("nothing")),
            ("before", gettext_lazy("the period before")),
            ("version", gettext_lazy("another model version")),
        ],
        required=False,
    )
    other_version = forms.CharField(max_length=64, required=False)

    def clean_since(self) -> int:
        """Microseconds since 1970."""
        return parse_moment(self.cleaned_data["since"])

    def clean_until(self) -> int:
        """Microseconds since 1970."""
        return parse_moment(self.cleaned_data["until"])

    @property
    def asked_measure(self) -> str:
        """What is explained."""
        return str(self.cleaned_data["measure"] or TTFT)

    def selection(self, now: int) -> Selection:
        """The requests that are explained; to be asked of a form that is valid."""
        asked = self.cleaned_data
        length_us = int(asked["period"] or _DEFAULT_PERIOD) * _MINUTE_US
        until_us = asked["until"] or now
        return Selection(
            tenant=asked["tenant"],
            qos_class=asked["qos_class"],
            model_version=asked["model_version"],
            worker_id=asked["worker"],
            from_us=asked["since"] or until_us - length_us,
            to_us=until_us,
        )

    def other(self, selection: Selection) -> Selection | None:
        """The requests that they are compared with."""
        asked = self.cleaned_data
        if asked["against"] == "before":
            return replace(selection, from_us=2 * selection.from_us - selection.to_us, to_us=selection.from_us)
        if asked["against"] == "version" and asked["other_version"]:
            return replace(selection, model_version=asked["other_version"])
        return None


class Row(TypedDict):
    """One node of the tree as a row; ``x`` and ``width``, of 1000, place its bar."""

    name: str
    depth: int
    share: float
    ms: float
    typical_ms: float
    slow_ms: float
    amplification: float | None
    culprit: str
    culprit_link: str
    x: str
    width: str
    group: str
    gathered: str


@never_cache
def why_slow(request: HttpRequest) -> HttpResponse:
    """The page."""
    require_permission(request)
    form = WhyForm(request.GET)
    context: dict[str, Any] = {**admin.site.each_context(request), "title": _("Why slow"), "form": form}
    if form.is_valid():
        try:
            context |= _explained(form)
        except DatabaseError as failure:
            context["error"] = str(failure)
    return TemplateResponse(request, "operators/why_slow.html", context)


def _explained(form: WhyForm) -> dict[str, Any]:
    selection, measure = form.selection(now_us()), form.asked_measure
    found = samples(selection, measure)
    tree = attribute(found, measure)
    other = form.other(selection)
    changes = compare(samples(other, measure), found, measure) if other else []
    return {
        "tree": tree,
        "rows": _rows(tree, selection) if tree else [],
        "root": tree.root if tree else None,
        "from_at": from_us(selection.from_us),
        "to_at": from_us(selection.to_us),
        "few": tree is not None and tree.requests < _FEW,
        "cut": len(found) == MAX_SAMPLES,
        "most": MAX_SAMPLES,
        "compared": other is not None,
        "changes": [_change(change) for change in changes],
        "slow_link": _slow_link(tree, selection, measure) if tree else "",
        "measure_name": part_names()[measure],
    }


def _rows(tree: Tree, selection: Selection) -> list[Row]:
    names, rows = part_names(), list[Row]()

    def add(node: Node, depth: int, x: float, group: str) -> None:
        culprit = node.culprit
        rows.append(
            {
                "name": names.get(node.name, node.name),
                "depth": depth,
                "share": 100 * node.share,
                "ms": node.ms,
                "typical_ms": node.typical_ms,
                "slow_ms": node.slow_ms,
                "amplification": node.amplification,
                "culprit": _told(culprit.kind, culprit.name, culprit.share, culprit.of_requests) if culprit else "",
                "culprit_link": _culprit_link(culprit.kind, culprit.name, selection) if culprit else "",
                "x": f"{10 * x:.1f}",
                "width": f"{1000 * node.share:.1f}",
                "group": group,
                "gathered": ", ".join(names.get(name, name) for name in node.gathered),
            }
        )
        for child in node.children:
            add(child, depth + 1, x, group or child.name)
            x += 100 * child.share

    add(tree.root, 0, 0.0, "")
    return rows


def _told(kind: str, name: str, share: float, of_requests: float) -> str:
    parts = {"name": name, "share": round(100 * share), "requests": round(100 * of_requests)}
    if kind == "worker":
        return _("%(share)s %% of it on worker %(name)s, which has %(requests)s %% of the requests") % parts
    return _("%(share)s %% of it is tenant %(name)s, who has %(requests)s %% of the requests") % parts


def _culprit_link(kind: str, name: str, selection: Selection) -> str:
    since, until = from_us(selection.from_us), from_us(selection.to_us)
    asked = {kind: name, "since": f"{since:%Y-%m-%d %H:%M:%S}", "until": f"{until:%Y-%m-%d %H:%M:%S}"}
    return f"{reverse('traces')}?{urlencode(asked)}"


def _slow_link(tree: Tree, selection: Selection, measure: str) -> str:
    since, until = from_us(selection.from_us), from_us(selection.to_us)
    asked = {
        "since": f"{since:%Y-%m-%d %H:%M:%S}",
        "until": f"{until:%Y-%m-%d %H:%M:%S}",
        "tenant": selection.tenant,
        "worker": selection.worker_id,
        "model_version": selection.model_version,
        "first_ms" if measure == TTFT else "slower_ms": f"{tree.root.ms * 0.999:.1f}",
    }
    return f"{reverse('traces')}?{urlencode({name: value for name, value in asked.items() if value})}"


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": part_names()[change.name],
        "before_ms": change.before_ms,
        "after_ms": change.after_ms,
        "added_ms": change.added_ms,
    }
