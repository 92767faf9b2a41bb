"""The pages of plans: edited, looked at before they are saved, saved."""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from domain.limits import Level
from tenants.admin.figures import limit_value, none_set, whole
from tenants.admin.history import AuditedAdmin
from tenants.admin.holding import caps_of
from tenants.admin.limit_fields import limit_fieldsets
from tenants.admin.lines import LinesField
from tenants.admin.plan_preview import preview_context
from tenants.admin.plausible import oddities, wrong_bounds
from tenants.models import Plan, Tenant

if TYPE_CHECKING:
    _PlanModelForm = forms.ModelForm[Plan]
else:
    _PlanModelForm = forms.ModelForm  # generic for the type checker only

_BACK = "_back"
"""Name of the preview's button that leads back to the form with what was typed."""


class PlanForm(_PlanModelForm):
    """Allowed models as lines instead of JSON; bounds that fit together."""

    allowed_models = LinesField(
        label=capfirst(_("allowed models")), help_text=_("One name a line. Empty for every model.")
    )

    def clean(self) -> dict[str, Any]:
        """Refuse warning lines above their budgets."""
        values = super().clean() or self.cleaned_data
        for name, wrong in wrong_bounds(values):
            self.add_error(name, wrong)
        return values

    class Meta:
        """What is edited."""

        model = Plan
        exclude = ()


@admin.register(Plan)
class PlanAdmin(AuditedAdmin):
    """Plans and how many tenants share each."""

    form = PlanForm
    list_display = (
        "name",
        "best_class",
        "weight",
        "requests_limit",
        "tokens_limit",
        "concurrent_limit",
        "month_budget",
        "models_line",
        "tenants_count",
    )
    search_fields = ("name",)
    sortable_by = ("name", "best_class", "weight")
    fieldsets = (
        (None, {"fields": ("name", ("best_class", "weight"))}),
        *limit_fieldsets(_("They hold for each tenant: all its keys together. Empty: none set."), soft=True),
        (_("Models"), {"fields": ("allowed_models",)}),
        (_("Prompts and answers"), {"fields": ("cache_sharing", "retention_hours")}),
        (_("Files and batches"), {"fields": ("files_mib",)}),
        (
            _("Equal requests"),
            {
                "fields": (
                    "response_cache",
                    ("response_cache_ttl_s", "cached_price_percent", "max_stale_s"),
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Plan]":
        """Count the tenants along, for the rows of one page."""
        plans: QuerySet[Plan] = super().get_queryset(request)
        shared = Tenant.objects.filter(plan=OuterRef("pk")).order_by().values("plan").annotate(found=Count("pk"))
        return plans.annotate(tenants_count=Coalesce(Subquery(shared.values("found")), 0))

    def get_urls(self) -> list[URLPattern]:
        """Add the preview."""
        preview = path(
            "<path:object_id>/preview", self.admin_site.admin_view(self.preview), name="tenants_plan_preview"
        )
        urls: list[URLPattern] = super().get_urls()
        return [preview, *urls]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Whoever comes back from the preview finds what was typed; nothing is saved."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if _BACK in request.POST:
            return type("PlanFormAgain", (form,), {"is_valid": lambda self: False})
        return form

    def preview(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show what the typed values would do; saving is one button further.

        Raises:
            Http404: no such plan.
            PermissionDenied: the operator may not change it.
        """
        plan: Plan | None = self.get_object(request, object_id)
        if plan is None:
            raise Http404(object_id)
        if not self.has_change_permission(request, plan):
            raise PermissionDenied
        form = self.get_form(request, plan, change=True, fields=None)(request.POST, instance=copy(plan))
        if request.method != "POST" or not form.is_valid():
            # The form of the usual page shows what is wrong; it is not saved, since it is not valid.
            answer: HttpResponseBase = self.changeform_view(request, object_id)
            return answer
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Preview: %(plan)s") % {"plan": plan.name},
            "opts": self.opts,
            "plan": plan,
            "typed": list(_typed(request)),
            "change_url": reverse("admin:tenants_plan_change", args=[plan.pk]),
            **preview_context(plan, form.save(commit=False), timezone.now()),
        }
        return TemplateResponse(request, "plans/preview.html", context)

    def save_model(self, request: HttpRequest, obj: Plan, form: forms.Form, change: Any) -> None:
        """Save, and say what can hardly be meant."""
        super().save_model(request, obj, form, change)
        for odd in oddities(form.cleaned_data):
            self.message_user(request, odd, messages.WARNING)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Refuse what tenants share without listing them: they can be very many."""
        shared = [(plan, plan.tenants.count()) for plan in objs]
        held = [_shared_by(plan, count) for plan, count in shared if count]
        return ([], {}, set(), held) if held else super().get_deleted_objects(objs, request)

    @display(description=_("requests per minute"))
    def requests_limit(self, plan: Plan) -> str:
        """The limit, readable."""
        return _limit(plan, "requests_per_minute")

    @display(description=_("tokens per minute"))
    def tokens_limit(self, plan: Plan) -> str:
        """The limit, readable."""
        return _limit(plan, "tokens_per_minute")

    @display(description=_("requests at once"))
    def concurrent_limit(self, plan: Plan) -> str:
        """The limit, readable."""
        return _limit(plan, "max_concurrent")

    @display(description=_("cost per month"))
    def month_budget(self, plan: Plan) -> str:
        """The limit, readable."""
        return _limit(plan, "cost_per_month")

    @display(description=_("allowed models"))
    def models_line(self, plan: Plan) -> str:
        """Name the models, or say that all are allowed."""
        return ", ".join(plan.allowed_models) or gettext("every model")

    @display(description=_("tenants"))
    def tenants_count(self, plan: Any) -> str:
        """How many tenants share the plan."""
        return whole(plan.tenants_count)


def _limit(plan: Plan, name: str) -> str:
    cap = caps_of(plan, Level.TENANT).get(name)
    return none_set() if cap is None else limit_value(name, cap)


def _typed(request: HttpRequest) -> Iterator[tuple[str, str]]:
    for name, values in request.POST.lists():
        if name != "csrfmiddlewaretoken" and not name.startswith("_"):
            yield from ((name, str(value)) for value in values)


def _shared_by(plan: Plan, count: int) -> str:
    told = ngettext(
        "%(plan)s: %(count)s tenant shares it. Give it another plan first.",
        "%(plan)s: %(count)s tenants share it. Give them another plan first.",
        count,
    )
    return told % {"plan": plan, "count": whole(count)}
