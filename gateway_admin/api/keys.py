"""API keys of tenants."""

from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.base import Changing, Creating, Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.filtering import TenantFilter
from gateway_admin.api.serializing import StrictModelSerializer, StrictSerializer
from tenants.admin.key_search import find_keys
from tenants.admin.key_state import STATE_NAMES, key_state
from tenants.keys import make_key
from tenants.models import LIMIT_FIELDS, SCOPE_CHOICES, ApiKey, Tenant, UsageRecord
from tenants.provision import revoke_key, rotate_key

_MOST_GRACE = timedelta(days=90)
_MOST_ADDRESSES = 200

STATES = sorted(STATE_NAMES)


class KeySerializer(StrictModelSerializer[ApiKey]):
    """A key of a tenant, without its text. A limit that is null is none at this level: the plan's hold beside."""

    tenant = serializers.SlugRelatedField(
        slug_field="slug", queryset=Tenant.objects.all(), help_text="Short name of the tenant; set once."
    )
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPE_CHOICES), allow_empty=False, required=False)
    allowed_addresses = serializers.ListField(
        child=serializers.CharField(max_length=50),
        max_length=_MOST_ADDRESSES,
        required=False,
        help_text="Addresses or networks such as 203.0.113.0/24. Empty for every address.",
    )
    state = serializers.SerializerMethodField()
    last_used_at = serializers.SerializerMethodField(help_text="When the last request with it ended.")

    class Meta:
        model = ApiKey
        fields = (
            *("id", "tenant", "name", "prefix", "state", "scopes", "allowed_addresses"),
            *("created_at", "expires_at", "revoked_at", "last_used_at"),
            *LIMIT_FIELDS,
        )
        read_only_fields = ("id", "prefix", "created_at", "revoked_at")

    @extend_schema_field({"type": "string", "enum": STATES})
    def get_state(self, key: ApiKey) -> str:
        """Whether it opens the door."""
        return key_state(key)

    def get_last_used_at(self, key: Any) -> datetime | None:
        """Asked for with the list in one query."""
        if hasattr(key, "last_used_at"):
            return key.last_used_at  # type: ignore[no-any-return]
        return (
            UsageRecord.objects.filter(key_id=key.pk)
            .order_by("-finished_at")
            .values_list("finished_at", flat=True)
            .first()
        )

    def validate_tenant(self, tenant: Tenant) -> Tenant:
        """A key stays with its tenant."""
        if self.instance is not None and tenant != self.instance.tenant:
            raise serializers.ValidationError("A key stays with its tenant. Make another one.")
        return tenant

    def validate_expires_at(self, at: datetime | None) -> datetime | None:
        """An end lies ahead."""
        if at is not None and at <= timezone.now():
            raise serializers.ValidationError("It must lie ahead. To end a key now, revoke it.")
        return at

    def validate_allowed_addresses(self, addresses: list[str]) -> list[str]:
        """Write them as networks."""
        return [_network(address) for address in addresses]

    def create(self, validated_data: dict[str, Any]) -> ApiKey:
        """Draw the key."""
        new = make_key()
        key = ApiKey.objects.create(prefix=new.prefix, digest=new.digest, **validated_data)
        key.plaintext = new.plaintext
        return key


def _network(address: str) -> str:
    try:
        return str(ip_network(address.strip(), strict=False))
    except ValueError as error:
        raise serializers.ValidationError(f"{address!r} is neither an address nor a network.") from error


class NewKeySerializer(KeySerializer):
    """A key that was just made; its text is not stored and cannot be had again."""

    key = serializers.CharField(source="plaintext", read_only=True, help_text="The key itself.")

    class Meta(KeySerializer.Meta):
        fields = (*KeySerializer.Meta.fields, "key")


class GraceSerializer(StrictSerializer):
    """How long the old key goes on."""

    grace_s = serializers.IntegerField(
        min_value=0, max_value=int(_MOST_GRACE.total_seconds()), default=24 * 3600, help_text="Seconds."
    )


class NothingSerializer(StrictSerializer):
    """An empty body."""


class KeyFilter(filters.FilterSet):
    """By tenant, and whether ended."""

    tenant = TenantFilter()
    ended = filters.BooleanFilter(method="filter_ended", help_text="Revoked or past its time.")
    search = filters.CharFilter(method="filter_search", help_text="A prefix, or part of a name or a tenant's.")

    class Meta:
        model = ApiKey
        fields = ("tenant", "ended", "search")

    def filter_ended(self, keys: "QuerySet[ApiKey]", name: str, value: bool) -> "QuerySet[ApiKey]":
        """Ended ones, or those that may go on."""
        now = timezone.now()
        ended = Q(revoked_at__lte=now) | Q(expires_at__lte=now)
        return keys.filter(ended) if value else keys.exclude(ended)

    def filter_search(self, keys: "QuerySet[ApiKey]", name: str, value: str) -> "QuerySet[ApiKey]":
        """As the pages do."""
        return find_keys(keys, value)


class KeyViewSet(Changing, Creating, Reading):
    """API keys. The text of a key is in the answer that made it, and nowhere else."""

    queryset: "QuerySet[ApiKey]" = ApiKey.objects.select_related("tenant")
    lookup_field = "pk"
    filter_backends = (filters.DjangoFilterBackend, OrderingFilter)
    filterset_class = KeyFilter
    ordering_fields = ("id", "name", "created_at", "expires_at")
    ordering = ("-id",)
    needs = {
        "list": "tenants.view_apikey",
        "retrieve": "tenants.view_apikey",
        "create": "tenants.add_apikey",
        "partial_update": "tenants.change_apikey",
        "destroy": "tenants.delete_apikey",
        "rotate": "tenants.change_apikey",
        "revoke": "tenants.change_apikey",
    }

    def get_queryset(self) -> "QuerySet[ApiKey]":
        """Look up along, for the rows of one page, when each key was used last."""
        keys: QuerySet[ApiKey] = super().get_queryset()
        if self.action != "list":
            return keys
        latest = UsageRecord.objects.filter(key=OuterRef("pk")).order_by("-finished_at").values("finished_at")[:1]
        return keys.annotate(last_used_at=Subquery(latest))

    def get_serializer_class(self) -> type[KeySerializer]:
        """With the text where a key is made."""
        return NewKeySerializer if self.action in ("create", "rotate") else KeySerializer

    @extend_schema(request=GraceSerializer, responses={201: NewKeySerializer})
    def rotate(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make a successor that may do the same; the old key goes on for ``grace_s``."""
        grace = GraceSerializer(data=request.data)
        grace.is_valid(raise_exception=True)
        with transaction.atomic():
            old = self.row(locked=True)
            if key_state(old) in ("revoked", "expired"):
                raise Conflict("This key has ended. Make a new one.")
            new, text = rotate_key(old, timedelta(seconds=grace.validated_data["grace_s"]))
        new.plaintext = text
        return self.shown(new, 201)

    @extend_schema(request=NothingSerializer, responses=KeySerializer)
    def revoke(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End the key now; gateways refuse it within a second. Doing it twice changes nothing."""
        NothingSerializer(data=request.data).is_valid(raise_exception=True)
        with transaction.atomic():
            key = self.row(locked=True)
            revoke_key(key, timezone.now())
        return self.shown(key)

    def require_deletable(self, row: ApiKey) -> None:
        """What was used must stay billable.

        Raises:
            Conflict: it was used.
        """
        if UsageRecord.objects.filter(key_id=row.pk).exists():
            raise Conflict("There is usage of this key, which must stay. Revoke it instead.")
