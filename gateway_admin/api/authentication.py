"""Who calls: a person with a session, or a program with a token."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

from gateway_admin.audit import came_with_token


class AutomationTokenAuthentication(TokenAuthentication):
    """``Authorization: Token sluice-op-...``; what the request changes is put down to the token's user."""

    def authenticate_credentials(self, token: bytes) -> Any:
        """Find the user and the token.

        Raises:
            AuthenticationFailed: no such token, or its time or its user's has ended.
        """
        try:
            token.decode("ascii")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("Invalid token.") from error
        user, found = super().authenticate_credentials(token)
        came_with_token(user, found)
        return user, found


class AutomationTokenScheme(OpenApiAuthenticationExtension):
    """How to send the token."""

    target_class = AutomationTokenAuthentication
    name = "automationToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """A header, since OpenAPI has no scheme of that name."""
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token sluice-op-...`, made by `manage.py token create`, or here by who is logged in.",
        }
