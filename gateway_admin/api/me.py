"""Who the caller is."""

from typing import Any

from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api.base import OperatorsViewSet
from gateway_admin.api.permissions import holds
from gateway_admin.api.tokens import TokenSerializer
from gateway_admin.models import AutomationToken
from gateway_admin.roles import Role, roles_within


class MeSerializer(serializers.Serializer[Any]):
    """The caller, and what it may."""

    username = serializers.CharField()
    roles = serializers.ListField(child=serializers.ChoiceField([role.value for role in Role]))
    permissions = serializers.ListField(child=serializers.CharField(), help_text="As Django names them.")
    token = TokenSerializer(allow_null=True, help_text="Null for a session.")


class MeViewSet(OperatorsViewSet):
    """The caller."""

    serializer_class = MeSerializer
    needs = {"me": None}

    @extend_schema(responses=MeSerializer)
    def me(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Who you are here, and which roles' rights you hold: the user's, and with a token no more than the token's."""
        user = request.user
        assert isinstance(user, User)  # the permission lets nobody else in
        held = sorted(name for name in user.get_all_permissions() if holds(request, name))
        token = request.auth if isinstance(request.auth, AutomationToken) else None
        me = {"username": user.get_username(), "roles": roles_within(held), "permissions": held, "token": token}
        return Response(MeSerializer(me).data)
