"""Tenants."""

from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.filters import OrderingFilter, SearchFilter

from gateway_admin.api.base import Changing, Creating, Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.permissions import holds
from gateway_admin.api.serializing import StrictModelSerializer
from tenants.models import Adjustment, Plan, Tenant, UsageRecord

_CHANGE = "tenants.change_tenant"


class TenantSerializer(StrictModelSerializer[Tenant]):
    """A customer. ``slug`` is set once and then names the tenant everywhere."""

    plan = serializers.SlugRelatedField(slug_field="name", queryset=Plan.objects.all(), help_text="Name of the plan.")

    class Meta:
        model = Tenant
        fields = ("id", "slug", "name", "plan", "active", "alert_email", "alert_webhook", "created_at")
        read_only_fields = ("id", "created_at")

    def validate_slug(self, slug: str) -> str:
        """Keep it as it is once it is given."""
        if self.instance is not None and slug != self.instance.slug:
            raise serializers.ValidationError("It cannot be changed: usage, logs and figures carry it.")
        return slug

    def to_representation(self, instance: Tenant) -> dict[str, Any]:
        """Show the address of a webhook to those who may change it: it often holds a secret."""
        shown = super().to_representation(instance)
        if instance.alert_webhook and not holds(self.context["request"], _CHANGE):
            address = urlsplit(instance.alert_webhook)
            shown["alert_webhook"] = f"{address.scheme}://{address.hostname}/***"
        return shown


class TenantFilter(filters.FilterSet):
    """By plan, and whether switched on."""

    plan = filters.CharFilter(field_name="plan__name", help_text="Name of the plan.")

    class Meta:
        model = Tenant
        fields = ("plan", "active")


class TenantViewSet(Changing, Creating, Reading):
    """Tenants: the customers."""

    queryset: "QuerySet[Tenant]" = Tenant.objects.select_related("plan")
    serializer_class = TenantSerializer
    lookup_field = "slug"
    filter_backends = (filters.DjangoFilterBackend, SearchFilter, OrderingFilter)
    filterset_class = TenantFilter
    search_fields = ("slug", "name")
    ordering_fields = ("slug", "name", "created_at")
    ordering = ("slug",)
    needs = {
        "list": "tenants.view_tenant",
        "retrieve": "tenants.view_tenant",
        "create": "tenants.add_tenant",
        "partial_update": _CHANGE,
        "destroy": "tenants.delete_tenant",
    }

    def require_deletable(self, row: Tenant) -> None:
        """What was used must stay billable.

        Raises:
            Conflict: the tenant has usage or adjustments. Asked for here, because the library would read all of it.
        """
        if any(model.objects.filter(tenant_id=row.pk).exists() for model in (UsageRecord, Adjustment)):
            raise Conflict("There is usage of this tenant, which must stay. Switch it off instead: active = false.")
