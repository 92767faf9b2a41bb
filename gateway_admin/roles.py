"""What operators may do: four roles, each a Django group of the same name.

The one table from which the pages and the REST API get their rights. The groups are made, and brought back to the
table, whenever the database is migrated; other groups, and who is in which, are left alone. A superuser may do all.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from auditlog.context import disable_auditlog
from django.apps import apps as all_apps
from django.apps.registry import Apps


class Role(StrEnum):
    """The name of a group."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    BILLING = "billing"
    ADMIN = "admin"


def _every(app: str, actions: Iterable[str], *models: str) -> frozenset[str]:
    return frozenset(f"{app}.{action}_{model}" for action in actions for model in models)


_WRITE = ("add", "change", "delete")

VIEW_AUDIT_LOG = "auditlog.view_logentry"
EXPORT_USAGE = "tenants.export_usage"
SWITCH_TRAFFIC = "gateway_admin.switch_traffic"
MANAGE_TOKENS = "gateway_admin.manage_tokens"
"""See and revoke the tokens of everybody; one's own need no permission."""

_VIEWER = (
    _every("tenants", ("view",), "plan", "tenant", "apikey", "price", "usagerecord", "usagerollup", "adjustment")
    | _every("tenants", ("view",), "budgetwarning", "hotkey", "storedprompt", "bulkjob", "storedfile")
    | {"gateway_admin.view_operatoraction", "tracing.view_storedrequest", VIEW_AUDIT_LOG}
)
_OPERATOR = (
    _VIEWER
    | _every("tenants", _WRITE, "plan", "tenant", "apikey")
    | _every("tenants", ("add", "change"), "hotkey")
    | {SWITCH_TRAFFIC}
)
_BILLING = _VIEWER | _every("tenants", _WRITE, "price") | {"tenants.add_adjustment", EXPORT_USAGE}
_ADMIN = _OPERATOR | _BILLING | _every("auth", (*_WRITE, "view"), "user", "group") | {MANAGE_TOKENS}

PERMISSIONS: dict[Role, frozenset[str]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.BILLING: _BILLING,
    Role.ADMIN: _ADMIN,
}
"""Role -> permissions, as Django names them (``app.codename``)."""


def make_groups(using: str, apps: Apps = all_apps, **kwargs: Any) -> None:
    """Make the four groups and give each what the table says (a receiver of ``post_migrate``)."""
    try:
        group_model = apps.get_model("auth", "Group")
        permission_model = apps.get_model("auth", "Permission")
    except LookupError:
        return  # a migration of one app alone, before there are groups
    known = {
        f"{app}.{codename}": pk
        for pk, app, codename in permission_model.objects.using(using).values_list(
            "pk", "content_type__app_label", "codename"
        )
    }
    with disable_auditlog():  # its table may not be there yet, and nobody did this
        for role, names in PERMISSIONS.items():
            group, _made = group_model.objects.using(using).get_or_create(name=role.value)
            group.permissions.set([known[name] for name in sorted(names) if name in known])


def roles_within(permissions: Iterable[str]) -> list[Role]:
    """The roles that need nothing beyond ``permissions``, in the order of the table."""
    held = frozenset(permissions)
    return [role for role, needed in PERMISSIONS.items() if needed <= held]
