"""Plans."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.filters import OrderingFilter, SearchFilter

from gateway_admin.api.base import Changing, Creating, Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.serializing import StrictModelSerializer
from tenants.models import LIMIT_FIELDS, Plan

_MOST_MODELS = 1000


class PlanSerializer(StrictModelSerializer[Plan]):
    """What each tenant that shares the plan may take; a limit that is null is none at this level."""

    allowed_models = serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=_MOST_MODELS,
        required=False,
        help_text="Empty for every model.",
    )

    class Meta:
        model = Plan
        fields = (
            *("id", "name", "best_class", "weight", "allowed_models", "cache_sharing", "retention_hours"),
            *("response_cache", "response_cache_ttl_s", "cached_price_percent", "max_stale_s", "files_mib"),
            *LIMIT_FIELDS,
            *("tokens_per_month_soft", "cost_per_month_soft"),
        )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A warning must come before the end."""
        for name in ("tokens_per_month", "cost_per_month"):
            hard, soft = (attrs.get(field, getattr(self.instance, field, None)) for field in (name, f"{name}_soft"))
            if hard is not None and soft is not None and soft > hard:
                raise serializers.ValidationError({f"{name}_soft": [f"It must not be above {name}."]})
        return attrs


class PlanFilter(filters.FilterSet):
    """By what plans allow."""

    class Meta:
        model = Plan
        fields = ("name", "best_class")


class PlanViewSet(Changing, Creating, Reading):
    """Plans: what the tenants that share one may take."""

    queryset: "QuerySet[Plan]" = Plan.objects.all()
    serializer_class = PlanSerializer
    filter_backends = (filters.DjangoFilterBackend, SearchFilter, OrderingFilter)
    filterset_class = PlanFilter
    search_fields = ("name",)
    ordering_fields = ("id", "name", "weight")
    ordering = ("name",)
    needs = {
        "list": "tenants.view_plan",
        "retrieve": "tenants.view_plan",
        "create": "tenants.add_plan",
        "partial_update": "tenants.change_plan",
        "destroy": "tenants.delete_plan",
    }

    def require_deletable(self, row: Plan) -> None:
        """A plan in use stays.

        Raises:
            Conflict: tenants share it.
        """
        if row.tenants.exists():
            raise Conflict("Tenants have this plan. Give them another one first.")
