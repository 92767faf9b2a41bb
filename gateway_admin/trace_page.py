"""The pages "Traces": finding a request by any of its ids, and seeing where its time went."""

from dataclasses import asdict
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from domain.trace.record import Record
from domain.trace.spans import tree
from domain.trace.stages import STAGES
from gateway.journey import REFUSED
from gateway_admin.batches_trace import batches_of, find_also_by_batch
from gateway_admin.engine_steps import HEIGHT, steps_of
from gateway_admin.moments import from_us, parse_moment, text_of
from gateway_admin.stage_names import part_names
from gateway_admin.waterfall import WIDTH, bars, gaps_ms, timeline
from tenants.models.choices import OUTCOME_CHOICES, QOS_CHOICES
from tracing.models import StoredRequest
from tracing.store.packing import unpack_lengths
from tracing.store.reading import Selection, batch_mates, find_one, moments_of

PERMISSION = "tracing.view_storedrequest"
SHOWN = 50
_TIMELINE_HEIGHT = 100
_FULL_ID = 36


class SearchForm(forms.Form):
    """What is looked for; every field may be empty."""

    q = forms.CharField(max_length=200, required=False, strip=True)
    tenant = forms.CharField(max_length=64, required=False)
    qos_class = forms.ChoiceField(choices=[("", gettext_lazy("every class")), *QOS_CHOICES], required=False)
    model_version = forms.CharField(max_length=64, required=False)
    worker = forms.CharField(max_length=64, required=False)
    outcome = forms.ChoiceField(
        choices=[("", gettext_lazy("every outcome")), *OUTCOME_CHOICES, (REFUSED, gettext_lazy("refused"))],
        required=False,
    )
    since = forms.CharField(max_length=30, required=False)
    until = forms.CharField(max_length=30, required=False)
    slower_ms = forms.FloatField(min_value=0, required=False)
    first_ms = forms.FloatField(min_value=0, required=False)
    failed = forms.BooleanField(required=False)

    def clean_since(self) -> int:
        """Microseconds since 1970."""
        return parse_moment(self.cleaned_data["since"])

    def clean_until(self) -> int:
        """Microseconds since 1970."""
        return parse_moment(self.cleaned_data["until"])

    def selection(self) -> Selection:
        """The same as the store takes it; to be asked of a form that is valid."""
        asked = self.cleaned_data
        return Selection(
            text=asked["q"],
            tenant=asked["tenant"],
            qos_class=asked["qos_class"],
            model_version=asked["model_version"],
            worker_id=asked["worker"],
            outcome=asked["outcome"],
            from_us=asked["since"],
            to_us=asked["until"],
            errors_only=asked["failed"],
            slow_us=int(1000 * (asked["slower_ms"] or 0)),
            slow_ttft_us=int(1000 * (asked["first_ms"] or 0)),
        )


def require_permission(request: HttpRequest) -> None:
    """Let only those in who may see requests.

    Raises:
        PermissionDenied: this operator may not.
    """
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied


@never_cache
def traces(request: HttpRequest) -> HttpResponse:
    """Search. A whole request id leads straight to its page."""
    require_permission(request)
    form = SearchForm(request.GET)
    rows, error = [], ""
    if form.is_valid():
        try:
            rows = find_also_by_batch(form.selection(), SHOWN)
        except DatabaseError as failure:
            error = str(failure)
        asked = form.cleaned_data["q"].lower()
        if len(rows) == 1 and len(asked) == _FULL_ID and rows[0].request_id == asked:
            return HttpResponseRedirect(reverse("trace", args=[asked]))
    context = {
        **admin.site.each_context(request),
        "title": _("Traces"),
        "form": form,
        "rows": [summary(row) for row in rows],
        "error": error,
        "searched": any(value for value in request.GET.values()),
        "shown": SHOWN,
    }
    return TemplateResponse(request, "operators/traces.html", context)


@never_cache
def trace(request: HttpRequest, request_id: str) -> HttpResponse:
    """One request: its row, its waterfall, its batch.

    Raises:
        Http404: no such request is kept.
    """
    row = _row(request, request_id)
    record = moments_of(row)
    context = {
        **admin.site.each_context(request),
        "title": _("Request %(id)s") % {"id": row.request_id},
        "row": summary(row),
        "facts": _facts(row),
        "stages": _stages(row),
        "width": WIDTH,
        "height": _TIMELINE_HEIGHT,
        "batches": batches_of(row, record),
        "may_see_batches": request.user.has_perm("tenants.view_bulkjob"),
        "mates": [summary(mate) for mate in batch_mates(row)],
        **(_whole(record) if record else {}),
    }
    return TemplateResponse(request, "operators/trace.html", context)


@never_cache
def trace_json(request: HttpRequest, request_id: str) -> HttpResponse:
    """The same for programs.

    Raises:
        Http404: no such request is kept.
    """
    row = _row(request, request_id)
    record = moments_of(row)
    lengths = unpack_lengths(row.lengths)
    answer: dict[str, Any] = {
        **summary(row),
        "stages_ms": {stage.value: lengths[number] / 1000 for number, stage in enumerate(STAGES)},
        "spans": [asdict(span) for span in tree(record)] if record else [],
        "record": asdict(record) if record else None,
    }
    return JsonResponse(answer, json_dumps_params={"indent": 2, "ensure_ascii": False})


def _row(request: HttpRequest, request_id: str) -> StoredRequest:
    require_permission(request)
    row = find_one(request_id)
    if row is None:
        raise Http404(_("No such request is kept: it may be older than what is kept, or the id is cut short."))
    return row


def summary(row: StoredRequest) -> dict[str, Any]:
    """What every list shows of a request."""
    return {
        "request_id": row.request_id,
        "trace_id": row.trace_id,
        "at": from_us(row.started_us),
        "at_text": text_of(row.started_us),
        "tenant": row.tenant,
        "qos_class": row.qos_class,
        "model": row.model,
        "model_version": row.model_version,
        "endpoint": row.endpoint,
        "outcome": row.outcome,
        "outcome_name": str(_outcomes().get(row.outcome, row.outcome)),
        "status": row.status,
        "code": row.code,
        "cache": row.cache,
        "worker_id": row.worker_id,
        "batch_id": row.batch_id,
        "gateway_id": row.gateway_id,
        "retry_attempt": row.retry_attempt,
        "rollback_cause": row.rollback_cause,
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "ttft_ms": None if row.ttft_us is None else row.ttft_us / 1000,
        "duration_ms": row.duration_us / 1000,
        "kept": row.kept,
    }


def _outcomes() -> dict[str, Any]:
    return {**dict(OUTCOME_CHOICES), REFUSED: _("refused")}


def _facts(row: StoredRequest) -> list[tuple[str, Any, str]]:
    """Label, value, and where the value leads to when it is chosen."""
    search = reverse("traces")
    facts: list[tuple[str, Any, str]] = [
        (_("Request id"), row.request_id, ""),
        (_("Trace id"), row.trace_id, f"{search}?q={row.trace_id}"),
        (_("Tenant and class"), f"{row.tenant} / {row.qos_class}", f"{search}?tenant={row.tenant}"),
        (_("Model version"), row.model_version, f"{search}?model_version={row.model_version}"),
        (_("Batch"), row.batch_id, f"{search}?q={row.batch_id}"),
        (_("Worker"), row.worker_id, f"{search}?worker={row.worker_id}"),
        (_("Gateway"), row.gateway_id, ""),
        (_("Retries"), f"{row.retry_attempt} {row.rollback_cause}".strip() if row.retry_attempt else "", ""),
        (_("Tokens"), f"{row.prompt_tokens} ({row.cached_tokens}) → {row.completion_tokens}", ""),
    ]
    return [fact for fact in facts if fact[1]]


def _stages(row: StoredRequest) -> list[dict[str, Any]]:
    """The stages that took time, as parts of the whole; they are known of every request."""
    names, whole_us = part_names(), max(1, row.duration_us)
    return [
        {"name": names[stage.value], "ms": length / 1000, "share": 100 * length / whole_us}
        for stage, length in zip(STAGES, unpack_lengths(row.lengths), strict=False)
        if length
    ]


def _whole(record: Record) -> dict[str, Any]:
    gaps = gaps_ms(record)
    pieces = timeline(record, _TIMELINE_HEIGHT)
    return {
        "bars": bars(record),
        "pieces": pieces,
        "points": " ".join(f"{piece['x']},{piece['y']}" for piece in pieces),
        "longest_gap_ms": max(gaps, default=None),
        "client_span": record.parent_id,
        "leader_id": record.leader_id,
        "steps": steps_of(record),
        "steps_height": HEIGHT,
    }
