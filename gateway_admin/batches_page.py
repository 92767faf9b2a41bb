"""The page "Batches" and the JSON that it asks for every two seconds."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache

from gateway_admin import batches_wording as words
from gateway_admin.batches import BatchView, base, ended_at, nobody_works, views
from gateway_admin.batches_list import Wanted, ended_jobs, open_jobs
from tenants.models import BulkJob
from tenants.models.bulk import STATUS_CHOICES

PERMISSION = "tenants.view_bulkjob"
_MAX_PAGE = 1_000_000
_TROUBLES = 5


class ListForm(forms.Form):
    """What the lists are narrowed to; it stands in the address, and none of it has to."""

    tenant = forms.CharField(max_length=64, required=False, strip=True)
    status = forms.ChoiceField(choices=[("", gettext_lazy("every status")), *STATUS_CHOICES], required=False)
    page = forms.IntegerField(min_value=1, max_value=_MAX_PAGE, required=False)

    def wanted(self) -> Wanted:
        """The same for the lists; what cannot be read narrows nothing."""
        self.is_valid()
        asked = self.cleaned_data
        return Wanted(asked.get("tenant", ""), asked.get("status", ""), asked.get("page") or 1)


def require_permission(request: HttpRequest) -> None:
    """Let only those in who may see batches.

    Raises:
        PermissionDenied: this operator may not.
    """
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied


def batches(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`batches_state`."""
    require_permission(request)
    form = ListForm(request.GET)
    wanted = form.wanted()
    context = {
        **admin.site.each_context(request),
        "title": _("Batches"),
        "wanted": wanted,
        "statuses": form.fields["status"].choices,  # type: ignore[attr-defined]
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/batches.html", context)


@never_cache
def batches_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON."""
    require_permission(request)
    wanted, now = ListForm(request.GET).wanted(), timezone.now()
    opened, total = open_jobs(wanted)
    shown = views(opened, now)
    ended, has_more = ended_jobs(wanted)
    state: dict[str, Any] = {
        "open": shown,
        "open_total": total,
        "figures": _figures(shown, total),
        "troubles": _troubles(shown, is_abandoned=nobody_works(now)),
        "ended": [_ended(job) for job in ended],
        "newer": _address(wanted, wanted.page - 1) if wanted.page > 1 else "",
        "older": _address(wanted, wanted.page + 1) if has_more else "",
        "page": wanted.page,
        "is_narrowed": bool(wanted.tenant or wanted.status),
        "is_empty": not (opened or ended) and not BulkJob.objects.exists(),
        "at": now.timestamp(),
    }
    return JsonResponse(state)


def _address(wanted: Wanted, page: int) -> str:
    chosen = {"tenant": wanted.tenant, "status": wanted.status, "page": page}
    return f"{reverse('batches')}?{urlencode({name: value for name, value in chosen.items() if value})}"


def _figures(shown: Sequence[BatchView], total: int) -> dict[str, Any]:
    rates = [view["per_minute"] for view in shown if view["per_minute"] is not None]
    return {
        "open": total,
        "left": sum(view["total"] - view["completed"] - view["failed"] for view in shown),
        "per_minute": sum(rates) if rates else None,
        "late": sum(view["end"]["level"] == "bad" for view in shown),
        "is_part": total > len(shown),
    }


def _troubles(shown: Sequence[BatchView], *, is_abandoned: bool) -> list[dict[str, str]]:
    """What is wrong, the worst first; of many batches only some are named here, as each says it in its row too."""
    found = [{"key": "nobody", "level": "bad", "text": words.nobody(), "id": "", "url": ""}] if is_abandoned else []
    wrong = sorted((view for view in shown if view["warning"]), key=lambda view: view["level"] != "bad")
    if is_abandoned:
        wrong = [view for view in wrong if view["level"] == "bad"]
    found += [_trouble(view) for view in wrong[:_TROUBLES]]
    more = len(wrong) - _TROUBLES
    if more > 0:
        text = ngettext("%(count)d other batch has trouble.", "%(count)d other batches have trouble.", more)
        level = wrong[_TROUBLES]["level"]
        found.append({"key": "others", "level": level, "text": text % {"count": more}, "id": "", "url": ""})
    return found


def _trouble(view: BatchView) -> dict[str, str]:
    text = _("%(tenant)s: %(warning)s") % {"tenant": view["tenant"], "warning": view["warning"]}
    return {"key": view["id"], "level": view["level"], "text": text, "id": view["id"], "url": view["url"]}


def _ended(job: BulkJob) -> dict[str, Any]:
    at = ended_at(job)
    return {
        **base(job),
        "errors": len(job.errors),
        "created": words.moment(job.created_at),
        "ended": words.moment(at) if at else "",
        "took": words.length(at - job.created_at) if at else "",
    }


def page_words() -> dict[str, Any]:
    """Texts with which the pages' scripts write, in the language of the request."""
    return {
        "progress": _("{share} of {total}"),
        "counts": _("{completed} completed, {failed} failed"),
        "result": _("{completed} of {total} completed"),
        "unanswered": _("{count} without an answer"),
        "unchecked": _("not counted yet"),
        "errors": _("{count} errors in its file"),
        "per_minute": _("{count} a minute"),
        "waits": _("Waits: {why}"),
        "shown": _("The {shown} that expire first, of {total}. Name a tenant to see its own."),
        "part": _("of the {shown} shown"),
        "page": _("page {page}"),
        "took": _("after {time}"),
        "quiet": _(
            "Nothing is wrong: every open batch is worked on, and ends before it expires if it goes on like this."
        ),
    }
