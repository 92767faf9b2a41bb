"""A tenant's invoice of one month: what its usage rows and adjustments add up to."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, QuerySet, Sum
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.adjustments import AdjustmentSerializer
from gateway_admin.api.base import OperatorsViewSet
from gateway_admin.api.csv_text import CsvWriter, Exact
from gateway_admin.api.serializing import MonthField, NanoField
from gateway_admin.api.usage_export import CsvRenderer
from tenants.models import Adjustment, Price, Tenant, UsageRecord
from tenants.month import month_bounds

_CSV_COLUMNS = (
    *("kind", "model", "model_version", "qos_class", "requests"),
    *("prompt_tokens", "cached_tokens", "completion_tokens"),
    *("input_per_million", "cached_input_per_million", "output_per_million", "tokens", "cost", "reason", "at"),
)


class InvoiceQuery(serializers.Serializer[Any]):
    """Which month."""

    month = MonthField(help_text="Like 2026-11, in UTC.")


class LineSerializer(serializers.Serializer[Any]):
    """What was used of one model in one class at one price; prices are null if it had none."""

    model = serializers.CharField()
    model_version = serializers.CharField(help_text="The versions that the price is for; empty for all.")
    qos_class = serializers.CharField()
    price_id = serializers.IntegerField(allow_null=True)
    input_per_million = serializers.DecimalField(12, 3, allow_null=True)
    cached_input_per_million = serializers.DecimalField(12, 3, allow_null=True)
    output_per_million = serializers.DecimalField(12, 3, allow_null=True)
    requests = serializers.IntegerField()
    prompt_tokens = serializers.IntegerField(help_text="The cached ones included.")
    cached_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = NanoField(source="cost_nano")


class InvoiceSerializer(serializers.Serializer[Any]):
    """Lines, adjustments and their sums. A request belongs to the month in which it was admitted."""

    tenant = serializers.CharField()
    name = serializers.CharField()
    month = MonthField()
    currency = serializers.CharField()
    made_at = serializers.DateTimeField()
    is_final = serializers.BooleanField(help_text="False while the month goes on.")
    lines = LineSerializer(many=True)
    adjustments = AdjustmentSerializer(many=True)
    requests = serializers.IntegerField()
    tokens = serializers.IntegerField(help_text="Of prompts and answers, and of adjustments.")
    usage_cost = NanoField(source="usage_nano")
    adjustments_cost = NanoField(source="adjustments_nano")
    total = NanoField(source="total_nano")


class InvoiceViewSet(OperatorsViewSet):
    """Invoices."""

    queryset: "QuerySet[Tenant]" = Tenant.objects.all()
    lookup_field = "slug"
    serializer_class = InvoiceSerializer
    filter_backends = ()
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer, BrowsableAPIRenderer, CsvRenderer)
    needs = {"invoice": "tenants.view_usagerecord"}
    parameters = {"invoice": frozenset({"month"})}

    @extend_schema(
        parameters=[InvoiceQuery, OpenApiParameter("format", str, enum=["json", "csv"])],
        responses={(200, "application/json"): InvoiceSerializer, (200, CsvRenderer.media_type): OpenApiTypes.STR},
    )
    def invoice(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """What a tenant owes for a month, as JSON or CSV."""
        query = InvoiceQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        tenant: Tenant = self.row()
        body = InvoiceSerializer(make_invoice(tenant, query.validated_data["month"], timezone.now())).data
        if not isinstance(request.accepted_renderer, CsvRenderer):
            return Response(body)
        name = f"invoice-{tenant.slug}-{body['month']}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(_csv(body), content_type=CsvRenderer.media_type, headers=headers)


def make_invoice(tenant: Tenant, month: date, now: datetime) -> dict[str, Any]:
    """Sum up the rows of a month; the keys are those of :class:`InvoiceSerializer`, costs in billionths."""
    start, end = month_bounds(month)
    lines = _lines(UsageRecord.objects.filter(tenant_id=tenant.pk, admitted_at__gte=start, admitted_at__lt=end))
    adjustments = list(Adjustment.objects.filter(tenant=tenant, month=month).order_by("made_at", "id"))
    usage_nano = sum(line["cost_nano"] for line in lines)
    adjustments_nano = sum(one.cost_nano for one in adjustments)
    used = sum(line["prompt_tokens"] + line["completion_tokens"] for line in lines)
    return {
        "tenant": tenant.slug,
        "name": tenant.name,
        "month": month,
        "currency": settings.SLUICE.currency,
        "made_at": now,
        "is_final": now >= end,
        "lines": lines,
        "adjustments": adjustments,
        "requests": sum(line["requests"] for line in lines),
        "tokens": used + sum(one.tokens for one in adjustments),
        "usage_nano": usage_nano,
        "adjustments_nano": adjustments_nano,
        "total_nano": usage_nano + adjustments_nano,
    }


def _lines(rows: "QuerySet[UsageRecord]") -> list[dict[str, Any]]:
    """One line a price, so that each has its unit prices."""
    grouped = rows.order_by("model", "qos_class", "price_id").values("model", "qos_class", "price_id")
    lines: list[Any] = list(
        grouped.annotate(
            requests=Count("id"),
            prompt_tokens=Sum("prompt_tokens"),
            cached_tokens=Sum("cached_tokens"),
            completion_tokens=Sum("completion_tokens"),
            cost_nano=Sum("cost_nano"),
        )
    )
    prices = Price.objects.in_bulk({line["price_id"] for line in lines} - {None})
    for line in lines:
        price = prices.get(line["price_id"])
        line["model_version"] = price.model_version if price else ""
        for name in ("input_per_million", "cached_input_per_million", "output_per_million"):
            line[name] = getattr(price, name, None)
    return lines


def _csv(body: dict[str, Any]) -> bytes:
    rows: list[dict[str, Any]] = [
        *({"kind": "usage", **line} for line in body["lines"]),
        *({"kind": "adjustment", "at": one["made_at"], **one} for one in body["adjustments"]),
        {"kind": "total", "requests": body["requests"], "tokens": body["tokens"], "cost": body["total"]},
    ]
    return CsvWriter().write([_CSV_COLUMNS, *(_cells(row) for row in rows)])


def _cells(row: dict[str, Any]) -> Iterable[Any]:
    for name in _CSV_COLUMNS:
        value = row.get(name)
        yield Exact(value) if name == "cost" else value
