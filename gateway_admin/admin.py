"""Operators and their groups in the theme's looks, and what operators did."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as StockGroupAdmin
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.models import Group, User
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from gateway_admin.audit_pages import LogEntryAdmin
from gateway_admin.models import OperatorAction
from gateway_admin.token_pages import AutomationTokenAdmin
from tenants.admin.history import AuditedAdmin
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.admin.time_range import TimeRangeFilter

__all__ = ["AutomationTokenAdmin", "GroupAdmin", "LogEntryAdmin", "OperatorActionAdmin", "UserAdmin"]

if TYPE_CHECKING:
    _StockUserAdmin = StockUserAdmin[User]
else:
    _StockUserAdmin = StockUserAdmin  # generic for the type checker only

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(AuditedAdmin, _StockUserAdmin):
    """People who may log in here."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(AuditedAdmin, StockGroupAdmin):
    """Sets of permissions."""


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadOnlyAdmin):
    """Who paused, drained and opened what: to read, never to change."""

    list_display = ("at", "operator_name", "action", "target_label", "previous_state", "reason", "outcome")
    list_filter = (
        ("action", ChoicesDropdownFilter),
        ("kind", ChoicesDropdownFilter),
        ("outcome", ChoicesDropdownFilter),
        ("at", TimeRangeFilter),
    )
    list_filter_submit = True
    search_fields = ("operator_name", "target", "reason")

    @display(description=_("target"), ordering="target")
    def target_label(self, row: OperatorAction) -> str:
        """The target as a person calls it."""
        return row.target_name
