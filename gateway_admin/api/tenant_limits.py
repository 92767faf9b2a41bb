"""How far the limits of a tenant are used now."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from domain.limit_state import LimitState
from domain.limits import KINDS, Amount, Level
from domain.money import decimal_text
from gateway_admin.api.base import OperatorsViewSet
from gateway_admin.api.filtering import MOST_ID
from tenants.live_limits import complete_limits, read_limits
from tenants.models import LIMIT_FIELDS, ApiKey, Tenant
from tenants.models.limits import limits_of

_TIMEOUT_S = 2.0


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string", "format": "decimal"}]})
class AmountField(serializers.Field[Any, Any, Any, Any]):
    """A whole number, or money as a decimal."""

    def to_representation(self, value: int | str) -> int | str:
        """As it is."""
        return value


class LimitSerializer(serializers.Serializer[Any]):
    """One limit as it stands. Amounts are whole numbers, those of cost decimals of the currency's unit."""

    level = serializers.ChoiceField(["tenant", "key"])
    name = serializers.ChoiceField(list(KINDS))
    per = serializers.CharField(help_text="minute, day, month, or at_once.")
    limit = AmountField()
    used = AmountField()
    held = AmountField(help_text="Set aside for what waits or runs.")
    remaining = AmountField()
    resets_at = serializers.DateTimeField(allow_null=True)
    known = serializers.BooleanField(help_text="False while more may have been used than the store knows.")
    in_force = serializers.BooleanField(help_text="No other level leaves less of the same.")


class LimitsAnswer(serializers.Serializer[Any]):
    """All limits of a tenant's plan, and those of a key if one was named."""

    tenant = serializers.CharField()
    plan = serializers.CharField()
    currency = serializers.CharField()
    limits = LimitSerializer(many=True)


class KeyQuery(serializers.Serializer[Any]):
    """Whose limits beside the plan's."""

    key = serializers.IntegerField(min_value=0, max_value=MOST_ID, required=False, help_text="Id of its key.")


class TenantLimitsViewSet(OperatorsViewSet):
    """Live limits."""

    queryset: "QuerySet[Tenant]" = Tenant.objects.select_related("plan")
    lookup_field = "slug"
    filter_backends = ()
    serializer_class = LimitsAnswer
    needs = {"limits": "tenants.view_tenant"}
    parameters = {"limits": frozenset({"key"})}

    @extend_schema(parameters=[KeyQuery], responses=LimitsAnswer)
    def limits(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """What of each limit is used, set aside and left at this moment."""
        tenant: Tenant = self.row()
        query = KeyQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        key = _key(tenant, query.validated_data.get("key"))
        limits = limits_of(Level.TENANT, [getattr(tenant.plan, name) for name in LIMIT_FIELDS])
        if key is not None:
            limits += limits_of(Level.KEY, [getattr(key, name) for name in LIMIT_FIELDS])
        key_id = None if key is None else key.pk
        seen = read_limits(_store(settings.SLUICE.ready_url), tenant.pk, limits, key_id)
        states = complete_limits(seen, tenant.pk, key_id)
        answer = {"tenant": tenant.slug, "plan": tenant.plan.name, "currency": settings.SLUICE.currency}
        return Response({**answer, "limits": [_shown(state) for state in states]})


def _key(tenant: Tenant, key_id: int | None) -> ApiKey | None:
    if key_id is None:
        return None
    key = ApiKey.objects.filter(pk=key_id, tenant=tenant).first()
    if key is None:
        raise serializers.ValidationError({"key": ["This tenant has no such key."]})
    return key


def _shown(state: LimitState) -> dict[str, Any]:
    kind = KINDS[state.name]

    def amount(value: int) -> int | str:
        return decimal_text(value) if kind.amount is Amount.COST else value

    return {
        "level": "tenant" if state.level is Level.TENANT else "key",
        "name": state.name,
        "per": kind.span.value,
        "limit": amount(state.limit),
        "used": amount(state.used),
        "held": amount(state.held),
        "remaining": amount(state.remaining),
        "resets_at": None if state.resets_at is None else datetime.fromtimestamp(state.resets_at / 1000, UTC),
        "known": state.known,
        "in_force": state.in_force,
    }


@lru_cache(maxsize=4)
def _store(url: str) -> Redis:
    """The store, asked for bytes; it gives up fast, since a thread waits."""
    return Redis.from_url(
        url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )
