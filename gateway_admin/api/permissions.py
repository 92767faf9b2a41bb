"""What a caller may do: the permissions of the user, and of these only what the token's role has too."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from gateway_admin.models import AutomationToken
from gateway_admin.roles import PERMISSIONS, Role

_ANYBODY_HERE = frozenset({None, "metadata"})
"""Actions of methods that a view does not have: the answer is 405 for whoever is known."""


def holds(request: Request, permission: str) -> bool:
    """Whether the caller may do what ``permission`` names."""
    if isinstance(request.auth, AutomationToken) and permission not in PERMISSIONS[Role(request.auth.role)]:
        return False
    return request.user.has_perm(permission)


class HoldsPermission(BasePermission):
    """Asks for the permission that the view names in ``needs`` for its action; None there: any user."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse who is unknown (401) or may not (403)."""
        if not request.user or not request.user.is_authenticated:
            return False
        if view.action in _ANYBODY_HERE:
            return True
        permission = view.needs[view.action]
        return permission is None or holds(request, permission)
