"""The page of stored prompts: whose they are and how large, never what they say."""

from typing import Any

from django.contrib import admin
from django.db.models import IntegerField, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast, Length
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from tenants.admin.figures import whole
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.models import PromptVersion, StoredPrompt

_OF_TENANTS = ("tenants_tenant_delete", "tenants_tenant_changelist")
_HIDDEN = ("messages",)


@admin.register(StoredPrompt)
class StoredPromptAdmin(ReadOnlyAdmin):
    """Tenants make, change and delete them; operators see that they are there."""

    list_display = ("public_id", "tenant", "name", "latest_version", "latest_size", "created_at")
    list_filter = (("tenant", AutocompleteSelectFilter),)
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("public_id", "name")
    search_help_text = _("Id or name")
    sortable_by = ()
    ordering = ("-id",)
    paginator = InfinitePaginator
    fields = ("public_id", "tenant", "name", "created_at", "all_versions")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> "QuerySet[StoredPrompt]":
        """With number and size of the latest version; what it says stays in the database."""
        newest = _sized(PromptVersion.objects.filter(prompt=OuterRef("pk"))).order_by("-number")
        rows: QuerySet[StoredPrompt] = super().get_queryset(request)
        return rows.annotate(
            newest_number=Subquery(newest.values("number")[:1]), newest_size=Subquery(newest.values("size")[:1])
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never by itself; but a tenant that is deleted takes its prompts with it."""
        return request.resolver_match is not None and request.resolver_match.url_name in _OF_TENANTS

    @display(description=_("latest version"))
    def latest_version(self, prompt: Any) -> str:
        """Its number."""
        return whole(prompt.newest_number or 0)

    @display(description=_("characters"))
    def latest_size(self, prompt: Any) -> str:
        """Of the latest version, as JSON."""
        return whole(prompt.newest_size or 0)

    @display(description=_("versions"))
    def all_versions(self, prompt: StoredPrompt) -> SafeString:
        """Each with its time, size and variables."""
        versions = _sized(prompt.versions.defer(*_HIDDEN)).order_by("-number")
        lines = (
            (one.number, f"{one.created_at:%Y-%m-%d %H:%M}", whole(one.size), ", ".join(one.variables))
            for one in versions
        )
        return format_html_join("", "<div>{} · {} · {} · {}</div>", lines)


def _sized(versions: "QuerySet[PromptVersion]") -> "QuerySet[Any]":
    return versions.annotate(size=Length(Cast("messages", TextField()), output_field=IntegerField()))
