"""The page of warnings that were given before budgets ended."""

from django.contrib import admin
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from tenants.admin.figures import money, whole
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.models import BudgetWarning


@admin.register(BudgetWarning)
class BudgetWarningAdmin(ReadOnlyAdmin):
    """Which tenants came to a bound of which month, and who was told."""

    list_display = ("at", "tenant", "month_name", "kind", "bound_label", "spent_text", "limit_text", "told_text")
    list_filter = (
        ("tenant", AutocompleteSelectFilter),
        ("bound", ChoicesDropdownFilter),
        ("kind", ChoicesDropdownFilter),
    )
    list_filter_submit = True
    list_select_related = ("tenant",)
    sortable_by = ()
    ordering = ("-id",)
    paginator = InfinitePaginator
    fields = ("tenant", "month_name", "kind", "bound", "spent_text", "limit_text", "at", "told_text", "attempts")
    readonly_fields = fields

    @display(description=_("month"))
    def month_name(self, row: BudgetWarning) -> str:
        """The month."""
        return f"{row.month:%Y-%m}"

    @display(description=_("bound"), label={BudgetWarning.Bound.SOFT: "warning", BudgetWarning.Bound.HARD: "danger"})
    def bound_label(self, row: BudgetWarning) -> tuple[str, str]:
        """How far it went, coloured."""
        return row.bound, row.get_bound_display()

    @display(description=_("used then"))
    def spent_text(self, row: BudgetWarning) -> str:
        """With its unit."""
        return _amount(row, row.spent)

    @display(description=_("bound's value"))
    def limit_text(self, row: BudgetWarning) -> str:
        """With its unit."""
        return _amount(row, row.limit)

    @display(description=_("told"))
    def told_text(self, row: BudgetWarning) -> str:
        """By which channel, or why not."""
        told = [f"{channel}: {error}" if error else channel for channel, error in sorted(row.told.items())]
        return "; ".join(told) or (gettext("nobody to tell") if row.done else gettext("not yet"))


def _amount(row: BudgetWarning, value: int) -> str:
    return money(value) if row.kind == BudgetWarning.Kind.COST else whole(value)
