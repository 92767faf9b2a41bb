"""The pages of automation tokens: whose they are and when they end, to look at and to revoke. Never their text."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from gateway_admin.automation_token import AutomationToken
from gateway_admin.roles import MANAGE_TOKENS
from tenants.admin.read_only import ReadOnlyAdmin

_COLOURS = {"active": "success", "expired": "danger"}


@admin.register(AutomationToken)
class AutomationTokenAdmin(ReadOnlyAdmin):
    """Revoking a token deletes its row; the audit log keeps who did it."""

    list_display = ("name", "user", "role", "masked", "state", "created", "expiry")
    list_filter = (("role", ChoicesDropdownFilter),)
    list_filter_submit = True
    list_select_related = ("user",)
    search_fields = ("name", "user__username", "token_key")
    fields = ("name", "user", "role", "masked", "created", "expiry")
    readonly_fields = fields

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Who may see the tokens of everybody."""
        return request.user.has_perm(MANAGE_TOKENS)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The same."""
        return request.user.has_perm(MANAGE_TOKENS)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The same: to delete is to revoke."""
        return request.user.has_perm(MANAGE_TOKENS)

    @display(description=_("token"))
    def masked(self, token: AutomationToken) -> str:
        """Its first characters."""
        return f"{token.token_key}…"

    @display(description=_("state"), label=_COLOURS)
    def state(self, token: AutomationToken) -> tuple[str, str]:
        """Whether it still opens the door."""
        if token.expiry is not None and token.expiry <= timezone.now():
            return "expired", gettext("Expired")
        return "active", gettext("Active")
