"""How a key stands, in words."""

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

from tenants.models import ApiKey

ACTIVE, ENDING, EXPIRED, REVOKED, DISABLED = "active", "ending", "expired", "revoked", "disabled"

STATE_NAMES = {
    ACTIVE: _("Active"),
    ENDING: _("Ends soon"),
    EXPIRED: _("Expired"),
    REVOKED: _("Revoked"),
    DISABLED: _("Tenant off"),
}
STATE_COLOURS = {ACTIVE: "success", ENDING: "warning", EXPIRED: "danger", REVOKED: "danger", DISABLED: "info"}


def key_state(key: ApiKey) -> str:
    """Return one of the states above; what refuses the key comes first."""
    now = timezone.now()
    if key.revoked_at is not None and key.revoked_at <= now:
        return REVOKED
    if key.expires_at is not None and key.expires_at <= now:
        return EXPIRED
    if not key.tenant.active:
        return DISABLED
    return ACTIVE if key.revoked_at is None else ENDING


def ends_at(key: ApiKey) -> datetime | None:
    """Return when the key stops working, or did; None for never."""
    return min((at for at in (key.expires_at, key.revoked_at) if at), default=None)


def when(at: datetime | None) -> str:
    """Write a time, or "never"; lists and forms of the theme would each write it differently."""
    return str(_("never")) if at is None else date_format(timezone.localtime(at), "DATETIME_FORMAT")


def masked(key: ApiKey) -> str:
    """What may be shown of a key."""
    return f"sk-sluice-{key.prefix}-…"
