"""The price list."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.filters import OrderingFilter, SearchFilter

from gateway_admin.api.base import Changing, Creating, Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.filtering import MomentFilter
from gateway_admin.api.serializing import StrictModelSerializer
from tenants.models import Price


class PriceSerializer(StrictModelSerializer[Price]):
    """What a million tokens of a model cost from some moment on, in the currency of the settings."""

    class Meta:
        model = Price
        fields = (
            *("id", "model", "model_version", "qos_class"),
            *("input_per_million", "cached_input_per_million", "output_per_million", "valid_from", "has_begun"),
        )
        read_only_fields = ("id", "has_begun")
        extra_kwargs = {
            "model_version": {"default": ""},
            "qos_class": {"default": ""},
            "valid_from": {"default": timezone.now, "help_text": "The present if left out."},
        }

    def validate_valid_from(self, at: datetime) -> datetime:
        """What was charged is not charged anew."""
        if at < timezone.now() and "valid_from" in self.initial_data:
            raise serializers.ValidationError("It must lie ahead; leave it out for now.")
        return at


class PriceFilter(filters.FilterSet):
    """By what it is for."""

    begun_by = MomentFilter(field_name="valid_from", lookup_expr="lte", help_text="Begun at or before this moment.")

    class Meta:
        model = Price
        fields = ("model", "model_version", "qos_class", "begun_by")


class PriceViewSet(Changing, Creating, Reading):
    """Prices. One that has begun to apply is history and stays as it is."""

    queryset: "QuerySet[Price]" = Price.objects.all()
    serializer_class = PriceSerializer
    lookup_field = "pk"
    filter_backends = (filters.DjangoFilterBackend, SearchFilter, OrderingFilter)
    filterset_class = PriceFilter
    search_fields = ("model", "model_version")
    ordering_fields = ("id", "model", "valid_from")
    ordering = ("model", "model_version", "qos_class", "-valid_from")
    needs = {
        "list": "tenants.view_price",
        "retrieve": "tenants.view_price",
        "create": "tenants.add_price",
        "partial_update": "tenants.change_price",
        "destroy": "tenants.delete_price",
    }

    def require_changeable(self, row: Any) -> None:
        """Requests may have been charged by it.

        Raises:
            Conflict: it has begun.
        """
        if row.has_begun:
            raise Conflict(
                "This price has begun: requests may have been charged by it. Make a new one with a later valid_from."
            )

    def require_deletable(self, row: Any) -> None:
        """The same.

        Raises:
            Conflict: it has begun.
        """
        self.require_changeable(row)
