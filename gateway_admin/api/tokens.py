"""Automation tokens: one's own, and for admins everybody's."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.base import Creating, Reading
from gateway_admin.api.permissions import holds
from gateway_admin.api.serializing import StrictModelSerializer
from gateway_admin.automation_token import DEFAULT_DAYS, MOST_DAYS, make_token
from gateway_admin.models import AutomationToken
from gateway_admin.roles import MANAGE_TOKENS, Role


class TokenSerializer(StrictModelSerializer[AutomationToken]):
    """A token, without its text."""

    user = serializers.CharField(source="user.username", read_only=True)
    created_at = serializers.DateTimeField(source="created", read_only=True)
    expires_at = serializers.DateTimeField(source="expiry", read_only=True)
    prefix = serializers.CharField(source="token_key", read_only=True, help_text="How the token begins.")

    class Meta:
        model = AutomationToken
        fields: tuple[str, ...] = ("id", "user", "name", "role", "prefix", "created_at", "expires_at")


class NewTokenSerializer(TokenSerializer):
    """A token that was just made; its text is not stored and cannot be had again."""

    days = serializers.IntegerField(
        min_value=1, max_value=MOST_DAYS, default=DEFAULT_DAYS, write_only=True, help_text="Until it ends."
    )
    token = serializers.SerializerMethodField(help_text="The token itself.")

    class Meta(TokenSerializer.Meta):
        fields: tuple[str, ...] = (*TokenSerializer.Meta.fields, "days", "token")

    def get_token(self, row: AutomationToken) -> str:
        """Known on the instance that was just made."""
        return row.plaintext

    def create(self, validated_data: dict[str, Any]) -> AutomationToken:
        """Make it for the caller.

        Raises:
            PermissionDenied: the role goes beyond what the caller may.
        """
        user: User = self.context["request"].user
        name, role = validated_data["name"], Role(validated_data["role"])
        try:
            row, text = make_token(user, name, role, validated_data["days"])
        except PermissionError as error:
            raise PermissionDenied(str(error)) from error
        row.plaintext = text
        return row


class TokenFilter(filters.FilterSet):
    """By user; of use to admins."""

    user = filters.CharFilter(field_name="user__username", help_text="Name of a user.")

    class Meta:
        model = AutomationToken
        fields = ("user", "role")


class TokenViewSet(Creating, Reading):
    """Tokens for programs. Everybody has their own; who may manage tokens sees and revokes all."""

    queryset: "QuerySet[AutomationToken]" = AutomationToken.objects.select_related("user")
    serializer_class = TokenSerializer
    lookup_field = "pk"
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = TokenFilter
    needs = {"list": None, "retrieve": None, "create": None, "destroy": None}

    def get_queryset(self) -> "QuerySet[AutomationToken]":
        """Those that the caller may see; ended ones are gone, the audit log remembers them."""
        rows: QuerySet[AutomationToken] = super().get_queryset().filter(expiry__gt=timezone.now())
        return rows if holds(self.request, MANAGE_TOKENS) else rows.filter(user_id=self.request.user.pk)

    def get_serializer_class(self) -> type[TokenSerializer]:
        """With the text where a token is made."""
        return NewTokenSerializer if self.action == "create" else TokenSerializer

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make a token, whose text is in this answer and nowhere else. Its role is at most one's own.

        Raises:
            PermissionDenied: the caller came with a token: a stolen one would make itself successors.
        """
        if request.auth is not None:
            raise PermissionDenied("Log in to make a token: one token cannot make another.")
        return super().create(request, *args, **kwargs)

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Revoke it; it is refused from the next request on."""
        self.row().delete()
        return Response(status=204)
