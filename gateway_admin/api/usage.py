"""Usage records: one settled request each."""

from collections.abc import Iterable
from typing import Any, cast

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers

from gateway_admin.api.base import Reading
from gateway_admin.api.filtering import IdFilter, MomentFilter, TenantFilter
from gateway_admin.api.paging import TimeCursor
from gateway_admin.api.serializing import NanoField
from tenants.models import ApiKey, Tenant, UsageRecord


class UsageListSerializer(serializers.ListSerializer[Any]):
    """A page of records: the names of tenants and keys come in one query each."""

    def to_representation(self, data: Any) -> list[Any]:
        """Look the names up; a tenant or key that is gone has none, and its records stay."""
        rows = list(data)
        cast("dict[str, Any]", self._context)["names"] = Names.of((row.tenant_id, row.key_id) for row in rows)
        return super().to_representation(rows)


class Names:
    """What tenants and keys are called, by id. The links of usage carry no constraint, so some may be missing."""

    def __init__(self, tenants: dict[int, str], keys: dict[int, str]) -> None:
        self.tenants, self.keys = tenants, keys

    @classmethod
    def of(cls, ids: Iterable[tuple[int, int]]) -> "Names":
        """Look up short names of tenants and prefixes of keys."""
        pairs = set(ids)
        tenants = Tenant.objects.filter(pk__in={tenant for tenant, _key in pairs}).order_by()
        keys = ApiKey.objects.filter(pk__in={key for _tenant, key in pairs}).order_by()
        return cls(dict(tenants.values_list("pk", "slug")), dict(keys.values_list("pk", "prefix")))


class UsageSerializer(serializers.ModelSerializer[UsageRecord]):
    """What one request used; the cached tokens are part of the prompt's."""

    tenant = serializers.SerializerMethodField(help_text="Short name; null if the tenant is gone.")
    key_prefix = serializers.SerializerMethodField(help_text="Null if the key is gone.")
    cost = NanoField(source="cost_nano", read_only=True)

    class Meta:
        model = UsageRecord
        list_serializer_class = UsageListSerializer
        fields = (
            *("request_id", "tenant_id", "tenant", "key_id", "key_prefix", "model", "model_version", "qos_class"),
            *("endpoint", "stream", "outcome", "status", "error_code", "cache"),
            *("prompt_tokens", "cached_tokens", "completion_tokens", "cost", "price_id"),
            *("retry_attempt", "rollback_cause", "batch_id", "worker_id", "gateway_id"),
            *("admitted_at", "claimed_at", "first_token_at", "finished_at"),
        )

    def get_tenant(self, row: UsageRecord) -> str | None:
        """Its short name."""
        return self._names(row).tenants.get(row.tenant_id)

    def get_key_prefix(self, row: UsageRecord) -> str | None:
        """What may be shown of the key."""
        return self._names(row).keys.get(row.key_id)

    def _names(self, row: UsageRecord) -> Names:
        names: Names | None = self.context.get("names")
        return names or Names.of([(row.tenant_id, row.key_id)])


class UsageFilter(filters.FilterSet):
    """By whom, what, how it ended, and when it was admitted."""

    tenant = TenantFilter()
    key = IdFilter(field_name="key_id", help_text="Id of a key.")
    start = MomentFilter(method="filter_start", help_text="Admitted at or after this moment.")
    end = MomentFilter(field_name="admitted_at", lookup_expr="lt", help_text="Admitted before this moment.")

    class Meta:
        model = UsageRecord
        fields = ("tenant", "key", "model", "model_version", "qos_class", "outcome", "request_id", "start", "end")

    def filter_start(self, rows: "QuerySet[UsageRecord]", name: str, value: Any) -> "QuerySet[UsageRecord]":
        """They all finished later too, which an index can find."""
        return rows.filter(admitted_at__gte=value, finished_at__gte=value)


class UsageCursor(TimeCursor):
    """The latest first."""

    ordering = ("-finished_at", "-id")


class UsageViewSet(Reading):
    """Usage records, the latest first. They are written once and never changed."""

    queryset: "QuerySet[UsageRecord]" = UsageRecord.objects.all()
    serializer_class = UsageSerializer
    lookup_field = "request_id"
    pagination_class = UsageCursor
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = UsageFilter
    needs = {"list": "tenants.view_usagerecord", "retrieve": "tenants.view_usagerecord"}
