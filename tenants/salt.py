"""The cache salt of tenants that share what engines have cached, and the marks that salts leave."""

import hashlib
from functools import cache

from django.utils.crypto import salted_hmac


@cache
def shared_cache_salt() -> str:
    """32 hex digits, the same in every gateway of one installation and known to nobody else."""
    return salted_hmac("sluice.cache", "shared", algorithm="sha256").hexdigest()[:32]


def salt_mark(cache_salt: str) -> str:
    """16 hex digits that tell a salt from others, and nothing of it."""
    return hashlib.blake2b(cache_salt.encode(), digest_size=8).hexdigest()
