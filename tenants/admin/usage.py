"""The pages of usage records: to read, to filter, never to change."""

from datetime import datetime

from django.contrib import admin
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    FieldTextFilter,
)
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from domain.outcome import Outcome
from tenants.admin.figures import exact_money
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.admin.time_range import TimeRangeFilter
from tenants.admin.whose import WhoseColumns, with_names
from tenants.models import UsageRecord

_OUTCOME_COLOURS = {
    Outcome.COMPLETED.value: "success",
    Outcome.CANCELLED.value: "info",
    Outcome.REJECTED.value: "warning",
    Outcome.EXPIRED.value: "danger",
    Outcome.FAILED.value: "danger",
    Outcome.TIMEOUT.value: "danger",
    Outcome.GATEWAY_LOST.value: "danger",
}


@admin.register(UsageRecord)
class UsageRecordAdmin(WhoseColumns, ReadOnlyAdmin):
    """One line a request; pages are not counted, since counting a large table takes longer than reading a page."""

    list_display = (
        "finished_at",
        "whose_tenant",
        "whose_key",
        "model_and_version",
        "class_name",
        "outcome_label",
        "cache_label",
        "status",
        "prompt",
        "answer",
        "cost",
        "queue_ms",
        "first_token_ms",
        "total_ms",
        "request_id",
    )
    list_filter = (
        ("tenant", AutocompleteSelectFilter),
        ("key", AutocompleteSelectFilter),
        ("qos_class", ChoicesDropdownFilter),
        ("outcome", ChoicesDropdownFilter),
        ("cache", ChoicesDropdownFilter),
        ("model", FieldTextFilter),
        ("model_version", FieldTextFilter),
        ("finished_at", TimeRangeFilter),
    )
    list_filter_submit = True
    readonly_fields = ("whose_tenant", "whose_key", "cost", "price_line", "queue_ms", "first_token_ms", "total_ms")
    list_fullwidth = True

    paginator = InfinitePaginator
    sortable_by = ()
    search_fields = ("request_id__exact",)  # "=" would ignore case, and so the index
    search_help_text = _("A whole request id, as in the answer's x-request-id.")
    fieldsets = (
        (None, {"fields": ("request_id", "whose_tenant", "whose_key", "endpoint", "stream", "qos_class")}),
        (_("Outcome"), {"fields": ("outcome", "cache", "status", "error_code", "retry_attempt", "rollback_cause")}),
        (_("Tokens"), {"fields": ("prompt_tokens", "cached_tokens", "completion_tokens")}),
        (_("Cost"), {"fields": ("cost", "price_line")}),
        (
            _("Time"),
            {
                "fields": (
                    "admitted_at",
                    "claimed_at",
                    "first_token_at",
                    "finished_at",
                    "queue_ms",
                    "first_token_ms",
                    "total_ms",
                )
            },
        ),
        (_("Where"), {"fields": ("model", "model_version", "batch_id", "worker_id", "gateway_id")}),
    )

    def get_queryset(self, request: HttpRequest) -> "QuerySet[UsageRecord]":
        """Look up the names along."""
        records: QuerySet[UsageRecord] = super().get_queryset(request)
        return with_names(records)

    @display(description=_("model"))
    def model_and_version(self, record: UsageRecord) -> SafeString:
        """Which version of which model answered; none if it never came to an engine."""
        return format_html('{}<br><span class="sluice-quiet">{}</span>', record.model, record.model_version)

    @display(description=_("cost"))
    def cost(self, record: UsageRecord) -> str:
        """To the last digit."""
        return exact_money(record.cost_nano)

    @display(description=_("price"))
    def price_line(self, record: UsageRecord) -> str | SafeString:
        """The price that the cost follows from, leading to its page."""
        if record.price_id is None:
            return gettext("none: the model had no price")
        url = reverse("admin:tenants_price_change", args=[record.price_id])
        return format_html('<a class="sluice-link" href="{}">{}</a>', url, record.price_id)

    @display(description=_("outcome"), label=_OUTCOME_COLOURS)
    def outcome_label(self, record: UsageRecord) -> tuple[str, str]:
        """How it ended, coloured."""
        return record.outcome, record.get_outcome_display()

    @display(description=_("cache"))
    def cache_label(self, record: UsageRecord) -> str:
        """What a kept or shared answer did for it; empty for one that was computed."""
        return record.get_cache_display()

    @display(description=_("class"))
    def class_name(self, record: UsageRecord) -> str:
        """The class by its short name."""
        return record.qos_class.upper()

    @display(description=_("prompt"))
    def prompt(self, record: UsageRecord) -> str:
        """Prompt tokens, short."""
        return intcomma(record.prompt_tokens)

    @display(description=_("answer"))
    def answer(self, record: UsageRecord) -> str:
        """Answer tokens, short."""
        return intcomma(record.completion_tokens)

    @display(description=_("queued, ms"))
    def queue_ms(self, record: UsageRecord) -> int | None:
        """From admission to the claim."""
        return _ms_between(record.admitted_at, record.claimed_at)

    @display(description=_("first token, ms"))
    def first_token_ms(self, record: UsageRecord) -> int | None:
        """From admission to the first token."""
        return _ms_between(record.admitted_at, record.first_token_at)

    @display(description=_("total, ms"))
    def total_ms(self, record: UsageRecord) -> int | None:
        """From admission to the end."""
        return _ms_between(record.admitted_at, record.finished_at)


def _ms_between(start: datetime, end: datetime | None) -> int | None:
    return None if end is None else round((end - start).total_seconds() * 1000)
