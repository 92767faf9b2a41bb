"""The pages of adjustments: made once, never edited, undone by an opposite one."""

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminSelectWidget

from tenants.adjust import make_adjustment
from tenants.admin.figures import exact_money, to_nano, whole
from tenants.admin.history import AuditedAdmin
from tenants.models import Adjustment

if TYPE_CHECKING:
    _AdjustmentModelForm = forms.ModelForm[Adjustment]
else:
    _AdjustmentModelForm = forms.ModelForm  # generic for the type checker only

_MONTHS_BACK = 12


def _months() -> list[tuple[str, str]]:
    """This month and those before it, the newest first."""
    first, found = timezone.now().date().replace(day=1), []
    for _number in range(_MONTHS_BACK + 1):
        found.append((first.isoformat(), f"{first:%Y-%m}"))
        first = (first - timedelta(days=1)).replace(day=1)
    return found


class AdjustmentForm(_AdjustmentModelForm):
    """An amount of money as people write it, or tokens, or both."""

    month = forms.ChoiceField(
        label=capfirst(_("month")), choices=_months, widget=UnfoldAdminSelectWidget, help_text=_("In which it counts.")
    )
    amount = forms.DecimalField(
        label=capfirst(_("amount")),
        required=False,
        max_digits=18,
        decimal_places=9,
        widget=UnfoldAdminDecimalFieldWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "amount" in self.fields:
            told = gettext("In %(currency)s. Above 0 charges the tenant more, below 0 gives it a credit.")
            self.fields["amount"].help_text = told % {"currency": settings.SLUICE.currency}
            self.fields["tokens"].required = False
            self.fields["tokens"].help_text = gettext("Counted against the month's tokens; below 0 gives some back.")

    def clean(self) -> dict[str, Any]:
        """Turn the month and the amount into what is stored.

        Raises:
            django.core.exceptions.ValidationError: it changes nothing.
        """
        values = super().clean() or self.cleaned_data
        values["tokens"] = values.get("tokens") or 0
        values["cost_nano"] = to_nano(values["amount"]) if values.get("amount") else 0
        if "month" in values:
            values["month"] = date.fromisoformat(values["month"])
        if not self.errors and not values["tokens"] and not values["cost_nano"]:
            raise ValidationError(gettext("It changes nothing: give an amount, or tokens."))
        return values

    class Meta:
        """What is asked."""

        model = Adjustment
        fields = ("tenant", "tokens", "reason")


@admin.register(Adjustment)
class AdjustmentAdmin(AuditedAdmin):
    """Credits and extra charges, with who gave them and why."""

    form = AdjustmentForm
    list_display = ("made_at", "tenant", "month_name", "amount_text", "tokens_text", "reason", "made_by_name")
    list_filter = (("tenant", AutocompleteSelectFilter), "month")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "reason", "made_by_name")
    sortable_by = ()
    ordering = ("-id",)
    paginator = InfinitePaginator
    autocomplete_fields = ("tenant",)
    actions = None

    def get_fields(self, request: HttpRequest, obj: Adjustment | None = None) -> tuple[str, ...]:
        """Ask for what is needed; show what was made."""
        if obj is None:
            return ("tenant", "month", "amount", "tokens", "reason")
        return ("tenant", "month_name", "amount_text", "tokens_text", "reason", "made_at", "made_by_name")

    def get_readonly_fields(self, request: HttpRequest, obj: Adjustment | None = None) -> tuple[str, ...]:
        """All of what was made."""
        return () if obj is None else self.get_fields(request, obj)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """A row that was made has no form."""
        if obj is not None:
            kwargs["form"] = forms.ModelForm
        return super().get_form(request, obj, change=change, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: an opposite adjustment undoes one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def save_model(self, request: HttpRequest, obj: Adjustment, form: forms.Form, change: Any) -> None:
        """Write it where it counts at once against the tenant's budget."""
        asked = form.cleaned_data
        made = make_adjustment(
            obj.tenant, asked["month"], asked["cost_nano"], asked["tokens"], asked["reason"], request.user
        )
        obj.__dict__.update(made.__dict__)

    @display(description=_("month"))
    def month_name(self, row: Adjustment) -> str:
        """The month in which it counts."""
        return f"{row.month:%Y-%m}"

    @display(description=_("amount"))
    def amount_text(self, row: Adjustment) -> str:
        """With the currency."""
        return exact_money(row.cost_nano)

    @display(description=_("tokens"))
    def tokens_text(self, row: Adjustment) -> str:
        """Readable."""
        return whole(row.tokens)
