"""The cache salt of tenants that share what engines have cached."""

from functools import cache

from django.utils.crypto import salted_hmac


@cache
def shared_cache_salt() -> str:
    """32 hex digits, the same in every gateway of one installation and known to nobody else."""
    return salted_hmac("sluice.cache", "shared", algorithm="sha256").hexdigest()[:32]
