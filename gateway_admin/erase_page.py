"""The page that says what erasing a tenant's kept data means, asks, and does it."""

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from redis.exceptions import RedisError

from gateway_admin.audit import note_erasure
from gateway_admin.erasure import Erasure, erase
from tenants.models import Tenant

PERMISSION = "tenants.change_tenant"

# A person waits for the page.
_GATEWAYS_S, _LOG_S = 5.0, 10.0
_UNAVAILABLE = 503


class EraseForm(forms.Form):
    """What is erased beside kept answers."""

    prompts = forms.BooleanField(required=False, label=gettext_lazy("Stored prompts too, with all their versions"))
    files = forms.BooleanField(  # type: ignore[assignment]  # the name of the field, not of the form's own
        required=False, label=gettext_lazy("Files and batches too; batches that have not ended are cancelled")
    )


@never_cache
@require_http_methods(["GET", "POST"])
def erase_page(request: HttpRequest, tenant_id: int) -> HttpResponse:
    """Ask on GET, erase on POST.

    Raises:
        PermissionDenied: the operator may not change tenants.
        Http404: no such tenant.
    """
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    tenant = get_object_or_404(Tenant, pk=tenant_id)
    if request.method == "GET":
        return _page(request, tenant, EraseForm())
    form = EraseForm(request.POST)
    form.full_clean()
    prompts, files = bool(form.cleaned_data["prompts"]), bool(form.cleaned_data["files"])
    note_erasure(tenant, prompts=prompts, files=files)  # before, so that no attempt goes unseen
    try:
        done = erase(
            settings.SLUICE.ready_url,
            tenant.pk,
            prompts=prompts,
            files_path=settings.SLUICE.files_path if files else None,
            gateways_s=_GATEWAYS_S,
            log_s=_LOG_S,
        )
    except (RedisError, OSError) as error:
        return _page(request, tenant, form, str(error) or type(error).__name__, _UNAVAILABLE)
    _tell(request, tenant, done)
    return HttpResponseRedirect(reverse("admin:tenants_tenant_change", args=[tenant.pk]))


def _tell(request: HttpRequest, tenant: Tenant, done: Erasure) -> None:
    names = {"tenant": tenant.name, "forgotten": done.forgotten, "gateways": done.gateways}
    if done.forgotten < done.gateways:
        text = _(
            "Only %(forgotten)s of %(gateways)s gateways have forgotten the kept answers of %(tenant)s: do it again."
        )
        messages.warning(request, text % names)
    else:
        messages.success(request, _("What was kept of %(tenant)s is erased.") % names)
    _tell_of_files(request, done)
    if not done.log_is_clean:
        text = _(
            "The store's file on the disk may still tell of old answers: it was not rewritten in time. Do it again."
        )
        messages.warning(request, text)


def _tell_of_files(request: HttpRequest, done: Erasure) -> None:
    if done.files or done.jobs:
        files = ngettext("%(count)s file", "%(count)s files", done.files) % {"count": done.files}
        batches = ngettext("%(count)s batch", "%(count)s batches", done.jobs) % {"count": done.jobs}
        messages.success(request, _("%(files)s and %(batches)s are erased.") % {"files": files, "batches": batches})
    if done.files_left:
        text = _(
            "%(left)s files could not be removed from the disk; nobody can read them through the gateway. A bulk "
            "process removes them once it can: see that the directory of files can be written."
        )
        messages.warning(request, text % {"left": done.files_left})


def _page(request: HttpRequest, tenant: Tenant, form: EraseForm, error: str = "", status: int = 200) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": _("Erase kept answers of %(tenant)s") % {"tenant": tenant.name},
        "tenant": tenant,
        "prompts": tenant.prompts.count(),
        "files": tenant.files.count(),
        "batches": tenant.bulk_jobs.count(),
        "form": form,
        "error": error,
    }
    return TemplateResponse(request, "operators/erase.html", context, status=status)
