"""What a key may do, and from where: both are known before a body is read."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from gateway.client_address import client_address, parse_networks, within
from gateway.errors import Refusal, refuse
from tenants.snapshot import Principal

INFERENCE, USAGE = "inference", "usage"

_MEANING = {INFERENCE: "ask models", USAGE: "read usage and limits"}


def require_scope(principal: Principal, scope: str | None) -> None:
    """Refuse a key that may not do this; None for what every key may.

    Raises:
        ApiError: 403 with the scope that is missing.
    """
    if scope is None or scope in principal.scopes:
        return
    raise refuse(
        Refusal.SCOPE_MISSING,
        f"You have insufficient permissions for this operation. This key may not {_MEANING[scope]}. "
        f"Missing scopes: {scope}. Use another key, or ask your operator for one.",
    )


def require_address(principal: Principal, scope: Mapping[str, Any]) -> None:
    """Refuse a key that is bound to addresses and used from another one, or from one that cannot be told.

    Args:
        principal: whom the key stands for.
        scope: of the ASGI connection.

    Raises:
        ApiError: 403 with the address as seen from here.
    """
    if not principal.allowed_addresses:
        return
    address = client_address(scope, parse_networks(settings.SLUICE.trusted_proxies))
    if address is not None and within(address, parse_networks(principal.allowed_addresses)):
        return
    seen = f"You call from {address}" if address else "From where you call cannot be told"
    raise refuse(
        Refusal.ADDRESS_NOT_ALLOWED,
        f"{seen}, and this API key may only be used from the addresses that it allows. Ask your operator to add yours.",
    )
