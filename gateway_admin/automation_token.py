"""Tokens with which programs use the operators' API."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import models
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken, AuthTokenManager

from gateway_admin.roles import MANAGE_TOKENS, PERMISSIONS, Role

DEFAULT_DAYS = 90
MOST_DAYS = 366
ROLE_CHOICES = [(role.value, role.value) for role in Role]


class AutomationToken(AbstractAuthToken):  # type: ignore[misc]  # the library has no types
    """A user's token: it may what its role may, and never more than its user may at the moment of use.

    The text is shown once; a digest is stored. The digest is not the key of the row as it is in the library, so that
    the row can be named in addresses and in the audit log.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.CharField(max_length=128, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=100, help_text=_("Where it is used, for example: nightly invoices."))
    role = models.CharField(_("role"), max_length=16, choices=ROLE_CHOICES)

    plaintext: str = ""
    """The token itself, only on the instance that was just made; not a column."""

    objects = AuthTokenManager()

    class Meta:
        verbose_name = _("automation token")
        verbose_name_plural = _("automation tokens")
        ordering = ["-created", "-id"]
        default_permissions = ()
        permissions = [(MANAGE_TOKENS.partition(".")[2], _("Can see and revoke the tokens of all users"))]

    def __str__(self) -> str:
        return f"{self.name} ({self.token_key}…)"


def may_give(user: User, role: Role) -> bool:
    """Whether ``user`` holds all that a token of ``role`` would."""
    return user.is_active and user.has_perms(PERMISSIONS[role])


def make_token(user: User, name: str, role: Role, days: int) -> tuple[AutomationToken, str]:
    """Make a token of ``user`` that ends after ``days``; the second value is its text, which cannot be had again.

    Raises:
        PermissionError: the role goes beyond what the user may.
    """
    if not may_give(user, role):
        raise PermissionError(f"{user.get_username()} may not do all that the role {role} may.")
    token, text = AutomationToken.objects.create(user, timedelta(days=days), name=name, role=role.value)
    return token, text
