"""Usage, summed up by tenant, key, model, class and time."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncMonth
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.base import OperatorsViewSet
from gateway_admin.api.filtering import MOST_ID
from gateway_admin.api.paging import Pages
from gateway_admin.api.serializing import NanoField
from gateway_admin.api.usage import Names
from tenants.models import QOS_CHOICES, Tenant, UsageRollup
from tenants.month import month_bounds
from tenants.spent import whole_periods

_COLUMNS = {"tenant": "tenant_id", "key": "key_id", "model": "model", "class": "qos_class"}
_TIMES = ("hour", "day", "month")
_SUMMED = ("requests", "completed", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano")
_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


class SumsQuery(serializers.Serializer[Any]):
    """What is summed up, and by what."""

    tenant = serializers.SlugRelatedField(
        slug_field="slug", queryset=Tenant.objects.all(), required=False, help_text="Short name of a tenant."
    )
    key = serializers.IntegerField(min_value=0, max_value=MOST_ID, required=False, help_text="Id of a key.")
    model = serializers.CharField(required=False)
    qos_class = serializers.ChoiceField(QOS_CHOICES, required=False)
    start = serializers.DateTimeField(
        required=False, help_text="Admitted from here on, on the hour. The present month if left out."
    )
    end = serializers.DateTimeField(
        required=False, help_text="Admitted before, on the hour. The next full hour if left out."
    )
    group_by = serializers.RegexField(
        rf"^({'|'.join((*_COLUMNS, *_TIMES))})(,({'|'.join((*_COLUMNS, *_TIMES))}))*$",
        required=False,
        help_text=f"Some of {', '.join(_COLUMNS)} and one of {', '.join(_TIMES)}, comma separated. Else totals alone.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Fill in the present month, and hold bounds and groups to what can be answered."""
        now = timezone.now()
        attrs.setdefault("start", month_bounds(now)[0])
        attrs.setdefault("end", max(_next_hour(now), attrs["start"]))
        for name in ("start", "end"):
            moment = attrs[name] = attrs[name].astimezone(UTC)
            if not _EARLIEST <= moment <= _LATEST or (moment.minute, moment.second, moment.microsecond) != (0, 0, 0):
                raise serializers.ValidationError({name: ["A full hour between 2000 and 2100 is needed."]})
        groups = attrs["group_by"] = [name for name in dict.fromkeys(attrs.get("group_by", "").split(",")) if name]
        if len(set(groups) & set(_TIMES)) > 1:
            raise serializers.ValidationError({"group_by": ["Only one of hour, day and month."]})
        return attrs


class SumsSerializer(serializers.Serializer[Any]):
    """Sums of requests; the cached tokens are part of the prompt's."""

    requests = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="By the engine, by time, or by a lost gateway; not by the client.")
    prompt_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = NanoField(source="cost_nano")


class GroupSerializer(SumsSerializer):
    """Sums of one group. Only what is grouped by is there."""

    starts_at = serializers.DateTimeField(required=False, help_text="Beginning of the hour, day or month in UTC.")
    tenant_id = serializers.IntegerField(required=False)
    tenant = serializers.CharField(required=False, allow_null=True, help_text="Short name; null if it is gone.")
    key_id = serializers.IntegerField(required=False)
    key_prefix = serializers.CharField(required=False, allow_null=True, help_text="Null if the key is gone.")
    model = serializers.CharField(required=False)
    qos_class = serializers.CharField(required=False)


class SumsPage(serializers.Serializer[Any]):
    """One page of groups, with the sums of all."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    currency = serializers.CharField()
    totals = SumsSerializer()
    count = serializers.IntegerField(help_text="Groups on all pages.")
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = GroupSerializer(many=True)


class GroupPages(Pages):
    """Pages of groups, which are no rows that could be found by an id."""

    django_paginator_class: type[Any] = Paginator


class UsageSumsViewSet(OperatorsViewSet):
    """Sums of usage by the time of admission; they equal those of the records."""

    queryset: "QuerySet[UsageRollup]" = UsageRollup.objects.all()
    serializer_class = GroupSerializer
    pagination_class = GroupPages
    filter_backends = ()
    needs = {"aggregate": "tenants.view_usagerollup"}
    parameters = {"aggregate": frozenset({*SumsQuery().fields, "page", "page_size"})}

    @extend_schema(parameters=[SumsQuery], responses=SumsPage)
    def aggregate(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Sum up usage by tenant, key, model, class, and hour, day or month."""
        query = SumsQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        rows = _selected(asked)
        # Without groups there are only totals.
        page = self.paginate_queryset(_grouped(rows, asked["group_by"]) if asked["group_by"] else rows.none())
        answer = self.get_paginated_response(GroupSerializer(_named(page or [], asked["group_by"]), many=True).data)
        totals = rows.aggregate(**{name: Sum(name, default=0) for name in _SUMMED})
        answer.data = {
            "start": asked["start"],
            "end": asked["end"],
            "currency": settings.SLUICE.currency,
            "totals": SumsSerializer(totals).data,
            **answer.data,
        }
        return answer


def _next_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def _selected(asked: dict[str, Any]) -> "QuerySet[UsageRollup]":
    start, end = asked["start"], asked["end"]
    hourly = Q(period=UsageRollup.Period.HOUR, starts_at__gte=start, starts_at__lt=end)
    rows = UsageRollup.objects.filter(hourly if "hour" in asked["group_by"] else whole_periods(start, end)).order_by()
    if "tenant" in asked:
        rows = rows.filter(tenant_id=asked["tenant"].pk)
    names = {"key": "key_id", "model": "model", "qos_class": "qos_class"}
    return rows.filter(**{column: asked[name] for name, column in names.items() if name in asked})


def _grouped(rows: "QuerySet[UsageRollup]", groups: list[str]) -> Any:
    columns = [_COLUMNS[group] for group in groups if group in _COLUMNS]
    if "hour" in groups:
        columns.append("starts_at")
    for name, truncated in (("day", TruncDay), ("month", TruncMonth)):
        if name in groups:
            rows = rows.annotate(begins=truncated("starts_at", tzinfo=UTC))
            columns.append("begins")
    return rows.values(*columns).annotate(**{name: Sum(name) for name in _SUMMED}).order_by(*columns)


def _named(rows: Iterable[Any], groups: list[str]) -> list[dict[str, Any]]:
    found = list(rows)
    names = Names.of((row.get("tenant_id", 0), row.get("key_id", 0)) for row in found)
    for row in found:
        if "tenant_id" in row:
            row["tenant"] = names.tenants.get(row["tenant_id"])
        if "key_id" in row:
            row["key_prefix"] = names.keys.get(row["key_id"])
        if "begins" in row:
            row["starts_at"] = row.pop("begins")
    return found
