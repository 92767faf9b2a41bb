"""Looks and navigation of the operators' admin: the settings of the Unfold theme."""

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from domain.config import Config

_PRIMARY = {
    "50": "oklch(98.4% .014 180.7)",
    "100": "oklch(95.3% .051 180.8)",
    "200": "oklch(91% .096 180.4)",
    "300": "oklch(85.5% .138 181.1)",
    "400": "oklch(77.7% .152 181.9)",
    "500": "oklch(60% .118 184.7)",
    "600": "oklch(51.1% .096 186.4)",
    "700": "oklch(43.7% .078 188.2)",
    "800": "oklch(38.6% .063 188.4)",
    "900": "oklch(33% .053 188.2)",
    "950": "oklch(27.7% .046 192.5)",
}


def theme(config: Config) -> dict[str, Any]:
    """Return the value of Django's setting ``UNFOLD``."""
    return {
        "SITE_TITLE": "Sluice",
        "SITE_HEADER": "Sluice",
        "SITE_SUBHEADER": _("One engine, many tenants"),
        "SITE_SYMBOL": "water",
        "SITE_FAVICONS": [
            {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("sluice/icon.svg")},
        ],
        "SITE_URL": None,
        "SHOW_HISTORY": True,
        "SHOW_VIEW_ON_SITE": False,
        "SHOW_LANGUAGES": True,
        "SHOW_BACK_BUTTON": True,
        "DASHBOARD_CALLBACK": "gateway_admin.dashboard.dashboard",
        "LOGIN": {"form": "gateway_admin.login.LoginForm"},
        "STYLES": [lambda request: static("sluice/admin.css")],
        "COLORS": {"primary": _PRIMARY},
        "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": _navigation(config)},
    }


def _navigation(config: Config) -> list[dict[str, Any]]:
    flower = [_item(_("Flower (batches)"), "local_florist", config.flower_url)] if config.flower_url else []
    return [
        {
            "title": _("Watch"),
            "items": [
                _item(_("Overview"), "dashboard", reverse_lazy("admin:index")),
                _item(_("Now"), "monitor_heart", reverse_lazy("now"), "tracing.view_storedrequest"),
                _item(_("Queues"), "stacks", reverse_lazy("queues")),
                _item(_("Batches"), "pending_actions", reverse_lazy("batches"), "tenants.view_bulkjob"),
                _item(_("Engines"), "monitoring", reverse_lazy("engines")),
                _item(_("Cache"), "cached", reverse_lazy("cache")),
                _item(_("Heat map"), "grid_on", reverse_lazy("heat-map"), "tracing.view_storedrequest"),
                _item(_("Service map"), "lan", reverse_lazy("service-map"), "tracing.view_storedrequest"),
                _item(_("Traces"), "timeline", reverse_lazy("traces"), "tracing.view_storedrequest"),
                _item(_("Why slow"), "account_tree", reverse_lazy("why-slow"), "tracing.view_storedrequest"),
                _rows(_("Whitelist"), "local_fire_department", "tenants", "hotkey"),
                *flower,
            ],
        },
        {
            "title": _("Who may do what"),
            "separator": True,
            "items": [
                _rows(_("Tenants"), "groups", "tenants", "tenant"),
                _rows(_("API keys"), "key", "tenants", "apikey"),
                _rows(_("Plans"), "speed", "tenants", "plan"),
                _rows(_("Stored prompts"), "description", "tenants", "storedprompt"),
            ],
        },
        {
            "title": _("Usage and money"),
            "separator": True,
            "items": [
                _rows(_("Requests"), "receipt_long", "tenants", "usagerecord"),
                _rows(_("Usage by day"), "calendar_month", "tenants", "usagerollup"),
                _rows(_("Prices"), "sell", "tenants", "price"),
                _rows(_("Adjustments"), "balance", "tenants", "adjustment"),
                _rows(_("Budget warnings"), "notifications", "tenants", "budgetwarning"),
            ],
        },
        {
            "title": _("System"),
            "separator": True,
            "items": [
                _rows(_("Operators"), "person", "auth", "user"),
                _rows(_("Groups"), "shield_person", "auth", "group"),
                _rows(
                    _("Automation tokens"), "token", "gateway_admin", "automationtoken", "gateway_admin.manage_tokens"
                ),
                _rows(_("Audit log"), "policy", "auditlog", "logentry"),
                _rows(_("Pauses and drains"), "history", "gateway_admin", "operatoraction"),
                _item(_("API reference"), "api", reverse_lazy("schema-docs")),
                _item(_("Operators' API"), "terminal", reverse_lazy("operators-docs")),
            ],
        },
    ]


def _item(title: Any, icon: str, link: Any, permission: str = "") -> dict[str, Any]:
    item = {"title": title, "icon": icon, "link": link}
    return {**item, "permission": lambda request: request.user.has_perm(permission)} if permission else item


def _rows(title: Any, icon: str, app: str, model: str, permission: str = "") -> dict[str, Any]:
    """The list of a model, for those who may see it."""
    needed = permission or f"{app}.view_{model}"
    link = reverse_lazy(f"admin:{app}_{model}_changelist")
    return {**_item(title, icon, link), "permission": lambda request: request.user.has_perm(needed)}
