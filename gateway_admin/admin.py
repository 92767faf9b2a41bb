"""Operators and their groups, in the theme's looks."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as StockGroupAdmin
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

if TYPE_CHECKING:
    _StockUserAdmin = StockUserAdmin[User]
else:
    _StockUserAdmin = StockUserAdmin  # generic for the type checker only

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(_StockUserAdmin, ModelAdmin):
    """People who may log in here."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(StockGroupAdmin, ModelAdmin):
    """Sets of permissions."""
