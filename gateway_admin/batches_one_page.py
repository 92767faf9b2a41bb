"""The page of one batch and the JSON that it asks for every two seconds until the batch has ended."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from domain.bulk.status import CANCELLABLE, OPEN, JobStatus, SliceState
from gateway_admin import batches_wording as words
from gateway_admin.batches import TONES, base, views
from gateway_admin.batches_cancel import cancelled_by
from gateway_admin.batches_page import page_words, require_permission
from gateway_admin.switch import PERMISSION
from tenants.models import BulkJob, BulkSlice, StoredFile

_STATE_TONES = {SliceState.WAITING: "starting", SliceState.RUNNING: "ready", SliceState.DONE: ""}

_FILE_ERRORS = {
    "invalid_json_line": gettext_lazy("This line is not a JSON object."),
    "invalid_custom_id": gettext_lazy("Its custom id is too long."),
    "invalid_method": gettext_lazy("Its method is not POST."),
    "invalid_url": gettext_lazy("Its address is not the batch's endpoint."),
    "invalid_body": gettext_lazy("Its body is no JSON object, or asks for a stream."),
    "missing_required_parameter": gettext_lazy("Its custom id or its model is missing."),
    "request_too_large": gettext_lazy("This line is too long."),
    "duplicate_custom_id": gettext_lazy("An earlier line has the same custom id."),
    "model_not_found": gettext_lazy("Its model does not exist, is not in the tenant's plan, or is not served here."),
    "too_many_requests": gettext_lazy("The file has more requests than one batch may have."),
    "empty_file": gettext_lazy("The file has no requests."),
    "file_not_found": gettext_lazy("The file was gone when it was to be checked."),
}


@never_cache
def batch(request: HttpRequest, public_id: str) -> HttpResponse:
    """The page: what does not change is written here, the rest comes from :func:`batch_state`.

    Raises:
        Http404: no such batch.
    """
    job, now = _find(request, public_id), timezone.now()
    is_open = job.status in OPEN
    context = {
        **admin.site.each_context(request),
        "title": _("Batch %(id)s") % {"id": job.public_id},
        "job": job,
        "status_tone": TONES[JobStatus(job.status)],
        "is_open": is_open,
        "may_cancel": job.status in CANCELLABLE and request.user.has_perm(PERMISSION),
        "facts": _facts(job),
        "timeline": timeline(job, now),
        "files": _files(job),
        "errors": [told_error(error) for error in job.errors],
        "actions": cancelled_by(job),
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/batch.html", context)


@never_cache
def batch_state(request: HttpRequest, public_id: str) -> HttpResponse:
    """What changes while a batch is open, as JSON.

    Raises:
        Http404: no such batch.
    """
    job, now = _find(request, public_id), timezone.now()
    pieces = BulkSlice.objects.filter(job=job)
    state: dict[str, Any] = {
        "batch": views([job], now)[0] if job.status in OPEN else base(job),
        "slices": [_slice(piece, now) for piece in pieces],
        "at": now.timestamp(),
    }
    return JsonResponse(state)


def _find(request: HttpRequest, public_id: str) -> BulkJob:
    require_permission(request)
    job = BulkJob.objects.select_related("tenant", "key").filter(public_id=public_id).first()
    if job is None:
        raise Http404(_("There is no such batch."))
    return job


def _slice(piece: BulkSlice, now: datetime) -> dict[str, Any]:
    is_lost = piece.state == SliceState.RUNNING and (piece.held_until is None or piece.held_until <= now)
    return {
        "number": piece.number + 1,
        "first_line": piece.first_line,
        "lines": piece.lines,
        "state_name": _("Lost") if is_lost else piece.get_state_display(),
        "tone": "failed" if is_lost else _STATE_TONES.get(SliceState(piece.state), ""),
        "held_by": piece.held_by,
        "attempt": piece.attempt,
        "completed": piece.completed,
        "failed": piece.failed,
    }


def _facts(job: BulkJob) -> list[tuple[str, Any, str]]:
    """Label, value, and where the value leads to when it is chosen."""
    tenant = reverse("admin:tenants_tenant_change", args=[job.tenant_id])
    key = reverse("admin:tenants_apikey_change", args=[job.key_id]) if job.key else ""
    facts: list[tuple[str, Any, str]] = [
        (_("Tenant"), job.tenant.slug, tenant),
        (_("API key"), job.key.name if job.key else _("deleted: its requests are refused"), key),
        (_("Endpoint"), job.endpoint, ""),
        (_("Model of the first request"), job.model, ""),
        (_("To be completed within"), job.completion_window, ""),
        (_("Tokens (of them cached) → answers"), _tokens(job), ""),
        (_("Trace id"), job.trace_id, ""),
    ]
    return [fact for fact in facts if fact[1]]


def _tokens(job: BulkJob) -> str:
    if job.status in OPEN or not job.prompt_tokens:
        return ""
    return f"{job.prompt_tokens} ({job.cached_tokens}) → {job.completion_tokens}"


def timeline(job: BulkJob, now: datetime) -> list[dict[str, Any]]:
    """What happened to a batch and when, in order; while it is open its expiry too, past or to come."""
    known = [
        (_("Made"), job.created_at),
        (_("File checked, begun"), job.in_progress_at),
        (_("To be cancelled"), job.cancelling_at),
        (_("Results being put together"), job.finalizing_at),
        (_("Completed"), job.completed_at),
        (_("Refused: its file is wrong"), job.failed_at),
        (_("Expired"), job.expired_at),
        (_("Cancelled"), job.cancelled_at),
    ]
    passed = sorted(((name, at) for name, at in known if at is not None), key=lambda step: step[1])
    found = [
        {"name": name, "at": at, "text": words.moment(at), "note": _after(at, before), "is_ahead": False}
        for (name, at), (_name, before) in zip(passed, [passed[0], *passed], strict=False)
    ]
    if job.status in OPEN:
        expiry = {"name": _("Expires"), "at": job.expires_at, "text": words.moment(job.expires_at)}
        note = words.relative(job.expires_at, now)
        found.append({**expiry, "note": note, "is_ahead": job.expires_at > now})
    return sorted(found, key=lambda step: step["at"])


def _after(at: datetime, before: datetime) -> str:
    return _("after %(time)s") % {"time": words.length(at - before)} if at > before else ""


def _files(job: BulkJob) -> list[dict[str, Any]]:
    named = [
        (_("File of requests"), job.input_file_id),
        (_("File of answers"), job.output_file_id),
        (_("File of failures"), job.error_file_id),
    ]
    rows = StoredFile.objects.filter(tenant=job.tenant_id, public_id__in=[file_id for _name, file_id in named])
    known = {row.public_id: row for row in rows}
    return [{"name": name, "id": file_id, "file": known.get(file_id)} for name, file_id in named if file_id]


def told_error(error: dict[str, Any]) -> dict[str, Any]:
    """What is shown of an error of a file: never its message, which may repeat what the tenant wrote."""
    code = str(error.get("code") or "")
    return {"line": error.get("line"), "code": code, "text": _FILE_ERRORS.get(code, "")}
