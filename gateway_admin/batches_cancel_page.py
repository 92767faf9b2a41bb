"""The page that says what cancelling a batch will do, asks, and does it."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from domain.bulk.status import CANCELLABLE, JobStatus
from gateway_admin import batches_page
from gateway_admin.batches_cancel import cancel, cancelled_by
from gateway_admin.models import Result
from gateway_admin.switch import PERMISSION
from gateway_admin.wording import ago, requests
from tenants.bulk.jobs import counted
from tenants.models import BulkJob

_CONFLICT = 409


class ConfirmedForm(forms.Form):
    """What an operator gives who has read what will happen."""

    reason = forms.CharField(max_length=300, required=False)


@never_cache
@require_http_methods(["GET", "POST"])
def batch_cancel(request: HttpRequest, public_id: str) -> HttpResponse:
    """Ask on GET, act on POST.

    Raises:
        PermissionDenied: the operator may not.
        Http404: no such batch.
    """
    batches_page.require_permission(request)
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    if request.method == "GET":
        return _ask(request, public_id)
    form = ConfirmedForm(request.POST)
    if not form.is_valid():
        raise Http404
    _find(public_id)
    operator = request.user
    assert isinstance(operator, User)  # the admin lets nobody else in
    row = cancel(operator, public_id, form.cleaned_data["reason"])
    if row.outcome == Result.OVERTAKEN:
        return _ask(request, public_id, overtaken=True)
    told = _("%(id)s is being cancelled.") if row.outcome == Result.DONE else _("%(id)s was being cancelled already.")
    messages.success(request, told % {"id": public_id})
    return HttpResponseRedirect(reverse("batch", args=[public_id]))


def _find(public_id: str) -> BulkJob:
    job = BulkJob.objects.select_related("tenant").filter(public_id=public_id).first()
    if job is None:
        raise Http404(_("There is no such batch."))
    return job


def _ask(request: HttpRequest, public_id: str, *, overtaken: bool = False) -> HttpResponse:
    job = counted([_find(public_id)])[0]
    can_be = job.status in CANCELLABLE
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Cancel %(id)s") % {"id": job.public_id},
        "job": job,
        "consequence": consequence(job) if can_be else "",
        "status": job.get_status_display(),
        "by_whom": _by_whom(job),
        "overtaken": overtaken,
    }
    return TemplateResponse(request, "operators/batch_cancel.html", context, status=_CONFLICT if overtaken else 200)


def _by_whom(job: BulkJob) -> str:
    """Which operator has it cancelled, in brackets; empty if none has."""
    found = cancelled_by(job)
    if not found:
        return ""
    return _(" (by %(name)s, %(ago)s)") % {"name": found[0]["by"], "ago": ago(found[0]["at"])}


def consequence(job: BulkJob) -> str:
    """What happens to the requests of a batch that is cancelled, in sentences."""
    if job.status == JobStatus.VALIDATING:
        return _("Its file is checked no further and none of its requests is sent. This cannot be undone.")
    ended = job.completed + job.failed
    kept = ngettext(
        "The %(count)d result so far is kept: the tenant gets it as a file, and what was answered is on its bill.",
        "The %(count)d results so far are kept: the tenant gets them as files, and what was answered is on its bill.",
        ended,
    )
    lost = _(
        "The %(requests)s without a result get none: those that run now are ended, and no other is sent. This cannot "
        "be undone; the tenant can only make a new batch of them."
    )
    return f"{kept % {'count': ended}} {lost % {'requests': requests(max(0, job.total - ended))}}"
