"""Adjustments: credits and extra charges by hand."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.filters import OrderingFilter

from gateway_admin.api.base import Creating, Reading
from gateway_admin.api.filtering import TenantFilter
from gateway_admin.api.serializing import MonthField, NanoField, StrictModelSerializer, parse_month
from tenants.adjust import make_adjustment
from tenants.models import Adjustment, Tenant

_MOST_TOKENS = 10**15


class AdjustmentSerializer(StrictModelSerializer[Adjustment]):
    """Adds to what a tenant used in a month, or takes away from it. Undone by an opposite one, never changed."""

    tenant = serializers.SlugRelatedField(slug_field="slug", queryset=Tenant.objects.all(), help_text="Short name.")
    month = MonthField(help_text="The month in which it counts, UTC.")
    cost = NanoField(source="cost_nano", default=0, help_text="Money; negative for a credit.")
    tokens = serializers.IntegerField(min_value=-_MOST_TOKENS, max_value=_MOST_TOKENS, default=0)
    made_by = serializers.CharField(source="made_by_name", read_only=True)

    class Meta:
        model = Adjustment
        fields = ("id", "tenant", "month", "cost", "tokens", "reason", "made_at", "made_by")
        read_only_fields = ("id", "made_at", "made_by")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """It changes something."""
        if not attrs["cost_nano"] and not attrs["tokens"]:
            raise serializers.ValidationError({"cost": ["Give a cost or tokens that are not 0."]})
        return attrs

    def create(self, validated_data: dict[str, Any]) -> Adjustment:
        """Write it, and tell the limits of the month."""
        return make_adjustment(user=self.context["request"].user, **validated_data)


class MonthFilter(filters.CharFilter):
    """By month."""

    class field_class(filters.CharFilter.field_class):  # noqa: N801
        """Reads ``2026-11``."""

        def clean(self, value: Any) -> Any:
            """Return its first day; None if the parameter was left out."""
            text = super().clean(value)
            month = parse_month(text)
            if text and month is None:
                raise forms.ValidationError("A month is written like 2026-11.")
            return month


class AdjustmentFilter(filters.FilterSet):
    """By tenant and month."""

    tenant = TenantFilter()
    month = MonthFilter(help_text="Like 2026-11.")

    class Meta:
        model = Adjustment
        fields = ("tenant", "month")


class AdjustmentViewSet(Creating, Reading):
    """Credits and extra charges. They count in the limits of their month at once."""

    queryset: "QuerySet[Adjustment]" = Adjustment.objects.select_related("tenant")
    serializer_class = AdjustmentSerializer
    lookup_field = "pk"
    filter_backends = (filters.DjangoFilterBackend, OrderingFilter)
    filterset_class = AdjustmentFilter
    ordering_fields = ("id", "made_at", "month")
    ordering = ("-made_at", "-id")
    needs = {
        "list": "tenants.view_adjustment",
        "retrieve": "tenants.view_adjustment",
        "create": "tenants.add_adjustment",
    }
