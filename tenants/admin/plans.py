"""The pages of plans."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from tenants.models import Plan


class ModelNamesField(forms.CharField):
    """A list of names, written one a line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}), required=False, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """Show a stored list as lines."""
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """Read lines as a list without empty ones and repetitions."""
        lines = (line.strip() for line in (super().to_python(value) or "").splitlines())
        return list(dict.fromkeys(line for line in lines if line))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare lists, so that an extra line break is no change."""
        return bool(list(initial or []) != self.to_python(data))


if TYPE_CHECKING:
    _PlanModelForm = forms.ModelForm[Plan]
else:
    _PlanModelForm = forms.ModelForm  # generic for the type checker only


class PlanForm(_PlanModelForm):
    """Allowed models as lines instead of JSON."""

    allowed_models = ModelNamesField(
        label=capfirst(_("allowed models")), help_text=_("One name a line. Empty for every model.")
    )

    class Meta:
        """What is edited."""

        model = Plan
        exclude = ()


@admin.register(Plan)
class PlanAdmin(ModelAdmin):
    """Plans and how many tenants share each."""

    form = PlanForm
    list_display = (
        "name",
        "best_class",
        "weight",
        "requests_limit",
        "tokens_limit",
        "concurrent_limit",
        "models_line",
        "tenants_count",
    )
    search_fields = ("name",)
    fieldsets = (
        (None, {"fields": ("name", "best_class", "weight")}),
        (_("Limits of each tenant"), {"fields": ("requests_per_minute", "tokens_per_minute", "max_concurrent")}),
        (_("Models"), {"fields": ("allowed_models",)}),
    )

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Plan]":
        """Count the tenants along."""
        plans: QuerySet[Plan] = super().get_queryset(request)
        return plans.annotate(tenants_count=Count("tenants"))

    @display(description=_("requests per minute"), empty_value=_("no limit"), ordering="requests_per_minute")
    def requests_limit(self, plan: Plan) -> str | None:
        """The limit, readable."""
        return _grouped(plan.requests_per_minute)

    @display(description=_("tokens per minute"), empty_value=_("no limit"), ordering="tokens_per_minute")
    def tokens_limit(self, plan: Plan) -> str | None:
        """The limit, readable."""
        return _grouped(plan.tokens_per_minute)

    @display(description=_("requests at once"), empty_value=_("no limit"), ordering="max_concurrent")
    def concurrent_limit(self, plan: Plan) -> str | None:
        """The limit, readable."""
        return _grouped(plan.max_concurrent)

    @display(description=_("allowed models"))
    def models_line(self, plan: Plan) -> str:
        """Name the models, or say that all are allowed."""
        return ", ".join(plan.allowed_models) or str(_("every model"))

    @display(description=_("tenants"), ordering="tenants_count")
    def tenants_count(self, plan: Any) -> int:
        """How many tenants share the plan."""
        return int(plan.tenants_count)


def _grouped(number: int | None) -> str | None:
    return None if number is None else intcomma(number)
