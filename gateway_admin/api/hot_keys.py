"""The whitelist: what is asked for most, and what operators pin and ban."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.base import Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.filtering import TenantFilter
from gateway_admin.api.keys import NothingSerializer
from gateway_admin.api.serializing import StrictModelSerializer, StrictSerializer
from tenants.models import HotKey
from tenants.whitelist import WhitelistError, default_end, find_or_new, release, set_rows

State = HotKey.State
SET_BY_HAND = [State.PINNED.value, State.BANNED.value]


class HotKeySerializer(StrictModelSerializer[HotKey]):
    """A key that is asked for often, or that operators have pinned or banned."""

    tenant = serializers.SlugRelatedField[Any](
        slug_field="slug", read_only=True, allow_null=True, help_text="Whose requests; null if several share the key."
    )
    changed_by = serializers.CharField(source="changed_by_name", read_only=True)

    class Meta:
        model = HotKey
        fields = (
            *("id", "kind", "key", "state", "expires_at", "note", "tenant", "model"),
            *("rate_per_minute", "trend", "first_seen_at", "last_seen_at", "changed_at", "changed_by"),
        )
        read_only_fields = fields


class UntilSerializer(StrictSerializer):
    """Until when, and why."""

    expires_at = serializers.DateTimeField(
        required=False, help_text="At most a year from now; 7 days from now if left out."
    )
    note = serializers.CharField(
        max_length=300, required=False, allow_blank=True, help_text="For those who come later; left out: as it is."
    )


class NewHotKeySerializer(UntilSerializer):
    """A key to pin or ban."""

    kind = serializers.ChoiceField(HotKey.Kind.choices)
    key = serializers.CharField(max_length=64, help_text="Value of the header x-sluice-cache-key, or a prompt's id.")
    state = serializers.ChoiceField(SET_BY_HAND)


class HotKeyFilter(filters.FilterSet):
    """By state, kind and tenant."""

    tenant = TenantFilter()

    class Meta:
        model = HotKey
        fields = ("state", "kind", "tenant")


class HotKeyViewSet(Reading):
    """Hot keys. Every gateway follows a change within two seconds."""

    queryset: "QuerySet[HotKey]" = HotKey.objects.select_related("tenant")
    serializer_class = HotKeySerializer
    lookup_field = "pk"
    filter_backends = (filters.DjangoFilterBackend, SearchFilter, OrderingFilter)
    filterset_class = HotKeyFilter
    search_fields = ("key", "note", "tenant__slug")
    ordering_fields = ("id", "rate_per_minute", "trend", "last_seen_at", "expires_at")
    ordering = ("-rate_per_minute", "id")
    needs = {
        "list": "tenants.view_hotkey",
        "retrieve": "tenants.view_hotkey",
        "create": "tenants.add_hotkey",
        "pin": "tenants.change_hotkey",
        "ban": "tenants.change_hotkey",
        "release": "tenants.change_hotkey",
    }

    @extend_schema(request=NewHotKeySerializer, responses={201: HotKeySerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Pin or ban a key, also one that counting has found already."""
        asked = NewHotKeySerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with _told(), transaction.atomic():
            row = find_or_new(asked.validated_data["kind"], asked.validated_data["key"])
            self._set(request, row, asked.validated_data["state"], asked.validated_data)
        return self.shown(row, 201)

    @extend_schema(request=UntilSerializer, responses=HotKeySerializer)
    def pin(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Keep its answer in every gateway until ``expires_at``. Doing it again moves the end."""
        return self._change(request, State.PINNED)

    @extend_schema(request=UntilSerializer, responses=HotKeySerializer)
    def ban(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Neither keep nor give its answer until ``expires_at``. Doing it again moves the end."""
        return self._change(request, State.BANNED)

    @extend_schema(request=NothingSerializer, responses=HotKeySerializer)
    def release(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End a pin or ban now. Doing it twice changes nothing."""
        NothingSerializer(data=request.data).is_valid(raise_exception=True)
        with transaction.atomic():
            row = self.row(locked=True)
            release([row], request.user)
        return self.shown(row)

    def _change(self, request: Request, state: str) -> Response:
        asked = UntilSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with _told(), transaction.atomic():
            row = self.row(locked=True)
            self._set(request, row, state, asked.validated_data)
        return self.shown(row)

    def _set(self, request: Request, row: HotKey, state: str, asked: dict[str, Any]) -> None:
        set_rows([row], state, asked.get("expires_at") or default_end(), request.user, asked.get("note"))


@contextmanager
def _told() -> Iterator[None]:
    """Tell as this API does what the whitelist refuses."""
    try:
        yield
    except WhitelistError as error:
        if error.field:
            raise serializers.ValidationError({error.field: [str(error)]}) from error
        raise Conflict(str(error)) from error
