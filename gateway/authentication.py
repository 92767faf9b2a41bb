"""Who calls: the API key in the Authorization header, looked up in the snapshot in memory."""

from datetime import UTC, datetime

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from gateway.connection import PRINCIPAL, beneath
from gateway.errors import Refusal, key_refused, refuse
from gateway.runtime import runtime
from gateway.scopes import require_address
from tenants.snapshot import KeyRefused, Principal

_AUTHORIZATION = b"authorization"
_MAX_KEY_LENGTH = 512


class BearerAuthentication(BaseAuthentication):
    """OpenAI's way: ``Authorization: Bearer KEY``. No other header says who calls or what he may do.

    A request that this process makes itself brings the principal along, as a key of the scope, which no connection has.
    """

    def authenticate(self, request: Request) -> tuple[Principal, str]:
        """Return the principal, and the shown part of its key; the lookup is a dictionary's, so nothing waits.

        Raises:
            ApiError: 401 for no key, a wrong, revoked or expired one; 403 for a disabled tenant or an address that the
                key does not allow; 400 for two keys.
        """
        scope = beneath(request).scope
        known = scope.get(PRINCIPAL)
        if known is not None:
            return known, known.key_prefix
        key = _bearer(scope["headers"])
        try:
            principal = runtime().snapshot.current.find(key, datetime.now(UTC))
        except KeyRefused as refused:
            raise key_refused(refused.reason, key) from None
        require_address(principal, scope)
        return principal, principal.key_prefix

    def authenticate_header(self, request: Request) -> str:
        """The scheme that a 401 names."""
        return "Bearer"


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    found = [value for name, value in headers if name == _AUTHORIZATION]
    if not found:
        raise refuse(Refusal.KEY_MISSING)
    if len(found) > 1:
        raise refuse(Refusal.INVALID_HEADER, "The header 'Authorization' is repeated. Send one key.")
    scheme, _, key = found[0].decode("latin-1").strip().partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise refuse(Refusal.KEY_MISSING, "The header 'Authorization' must read 'Bearer YOUR_KEY'.")
    if len(key) > _MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise key_refused("unknown", key)
    return key
