"""How a key stands, in words."""

from django.utils import timezone
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


def labelled_state(key: ApiKey) -> tuple[str, str]:
    """Return the state and its name, as a coloured label takes them."""
    state = key_state(key)
    return state, str(STATE_NAMES[state])


def masked(key: ApiKey) -> str:
    """What may be shown of a key."""
    return f"sk-sluice-{key.prefix}-…"
