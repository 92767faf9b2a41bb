"""The pages of plans."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
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

    allowed_models = ModelNamesField(label=_("allowed models"), help_text=_("One name a line. Empty for every model."))

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
        "requests_per_minute",
        "tokens_per_minute",
        "max_concurrent",
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

    @display(description=_("allowed models"))
    def models_line(self, plan: Plan) -> str:
        """Name the models, or say that all are allowed."""
        return ", ".join(plan.allowed_models) or str(_("every model"))

    @display(description=_("tenants"), ordering="tenants_count")
    def tenants_count(self, plan: Any) -> int:
        """How many tenants share the plan."""
        return int(plan.tenants_count)
