"""The page of usage by day."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter, FieldTextFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from tenants.admin.figures import exact_money, whole
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.admin.time_range import TimeRangeFilter
from tenants.admin.whose import WhoseColumns, with_names
from tenants.models import UsageRollup


@admin.register(UsageRollup)
class UsageRollupAdmin(WhoseColumns, ReadOnlyAdmin):
    """One line for each day, key, model and class; hours are on the tenant's page."""

    list_display = (
        "day",
        "whose_tenant",
        "whose_key",
        "model",
        "class_name",
        "asked",
        "not_done",
        "prompt",
        "cached",
        "answer",
        "cost",
    )
    list_display_links = None
    list_filter = (
        ("tenant", AutocompleteSelectFilter),
        ("key", AutocompleteSelectFilter),
        ("qos_class", ChoicesDropdownFilter),
        ("model", FieldTextFilter),
        ("starts_at", TimeRangeFilter),
    )
    list_filter_submit = True
    list_fullwidth = True

    ordering = ("-starts_at", "-id")
    sortable_by = ()
    paginator = InfinitePaginator

    def get_queryset(self, request: HttpRequest) -> "QuerySet[UsageRollup]":
        """Days alone: hours beside them would be the same requests once more."""
        sums: QuerySet[UsageRollup] = super().get_queryset(request)
        return with_names(sums.filter(period=UsageRollup.Period.DAY))

    @display(description=_("day"))
    def day(self, sums: UsageRollup) -> str:
        """The day in UTC."""
        return f"{sums.starts_at:%Y-%m-%d}"

    @display(description=_("class"))
    def class_name(self, sums: UsageRollup) -> str:
        """The class by its short name."""
        return sums.qos_class.upper()

    @display(description=_("requests"))
    def asked(self, sums: UsageRollup) -> str:
        """How many."""
        return whole(sums.requests)

    @display(description=_("failed"))
    def not_done(self, sums: UsageRollup) -> str:
        """How many of them failed."""
        return whole(sums.failed)

    @display(description=_("prompt tokens"))
    def prompt(self, sums: UsageRollup) -> str:
        """Readable."""
        return whole(sums.prompt_tokens)

    @display(description=_("of these cached"))
    def cached(self, sums: UsageRollup) -> str:
        """Readable."""
        return whole(sums.cached_tokens)

    @display(description=_("answer tokens"))
    def answer(self, sums: UsageRollup) -> str:
        """Readable."""
        return whole(sums.completion_tokens)

    @display(description=_("cost"))
    def cost(self, sums: UsageRollup) -> str:
        """To the last digit."""
        return exact_money(sums.cost_nano)
