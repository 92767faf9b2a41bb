"""The pages of tenants."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display

from tenants.admin.key_state import STATE_NAMES, ends_at, key_state, masked, when
from tenants.models import ApiKey, Tenant, UsageRecord
from tenants.summary import summarise_usage


class ApiKeyInline(TabularInline):
    """The tenant's keys, to look at; they are made and ended on their own pages."""

    model = ApiKey
    extra = 0
    per_page = 20
    fields = ("page", "masked", "state", "created_at", "ends_at")
    readonly_fields = fields
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Tenant | None = None) -> bool:
        """Never here: a new key must be shown once."""
        return False

    @display(description=_("name"))
    def page(self, key: ApiKey) -> SafeString:
        """The name, leading to the key's own page."""
        url = reverse("admin:tenants_apikey_change", args=[key.pk])
        return format_html('<a class="sluice-link" href="{}">{}</a>', url, key.name)

    @display(description=_("key"))
    def masked(self, key: ApiKey) -> str:
        """The part of the key that is known."""
        return masked(key)

    @display(description=_("state"))
    def state(self, key: ApiKey) -> str:
        """Whether the key opens the door."""
        return str(STATE_NAMES[key_state(key)])

    @display(description=_("ends"))
    def ends_at(self, key: ApiKey) -> str:
        """When the key stops working, or did."""
        return when(ends_at(key))


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    """Tenants with their keys and what they used today."""

    list_display = ("slug", "name", "plan", "active", "keys_in_force", "last_request_at")
    list_filter = ("active", ("plan", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("plan",)
    search_fields = ("slug", "name")
    autocomplete_fields = ("plan",)
    inlines = (ApiKeyInline,)
    actions_detail = ("new_key", "see_usage")
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Tenant]":
        """Count the keys along, and look up the last request."""
        tenants: QuerySet[Tenant] = super().get_queryset(request)
        now = timezone.now()
        not_revoked = Q(keys__revoked_at=None) | Q(keys__revoked_at__gt=now)
        not_expired = Q(keys__expires_at=None) | Q(keys__expires_at__gt=now)
        latest = UsageRecord.objects.filter(tenant=OuterRef("pk")).order_by("-finished_at").values("finished_at")[:1]
        return tenants.annotate(
            keys_in_force=Count("keys", filter=not_revoked & not_expired), last_request_at=Subquery(latest)
        )

    def get_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """Ask for little; show what is known."""
        asked = ("slug", "name", "plan", "active")
        return asked if obj is None else (*asked, "created_at", "usage_today")

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """The short name is in logs, metrics and queues: it stays."""
        return () if obj is None else ("slug", "created_at", "usage_today")

    @display(description=_("keys in force"), ordering="keys_in_force")
    def keys_in_force(self, tenant: Any) -> int:
        """Keys that are neither revoked nor expired."""
        return int(tenant.keys_in_force)

    @display(description=_("last request"), ordering="last_request_at")
    def last_request_at(self, tenant: Any) -> str:
        """When the last request of this tenant ended."""
        return when(tenant.last_request_at)

    @display(description=_("usage today (UTC)"))
    def usage_today(self, tenant: Tenant) -> SafeString:
        """Requests and tokens since midnight."""
        midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
        return render_to_string("operators/usage_line.html", {"usage": summarise_usage(midnight, tenant.pk)})

    @action(description=_("New API key"), icon="key", permissions=["change"])
    def new_key(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go and make a key for this tenant."""
        return HttpResponseRedirect(f"{reverse('admin:tenants_apikey_add')}?{urlencode({'tenant': object_id})}")

    @action(description=_("Its usage"), icon="receipt_long", permissions=["view"])
    def see_usage(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go to the usage records of this tenant."""
        query = urlencode({"tenant__id__exact": object_id})
        return HttpResponseRedirect(f"{reverse('admin:tenants_usagerecord_changelist')}?{query}")
