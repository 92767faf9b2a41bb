"""The name of an answer: equal for equal requests of those who may share, a secret to everybody else."""

from functools import lru_cache

from blake3 import blake3

KEY_BYTES = 16
_FORM = b"1"
_CONTEXT = "sluice 2026-11 names of kept answers"


def answer_key(secret: str, endpoint: str, version: str, canonical: bytes) -> bytes:
    """Name the answer to a request: 16 bytes.

    A keyed BLAKE3 over everything that may change the answer. Its key comes from the tenant's secret, so nobody can
    make a name for another tenant, or tell from a name what was asked.

    Args:
        secret: of the tenant, or of all that share (``Principal.cache_salt``).
        endpoint: "chat", "completions" or "embeddings".
        version: of the model that would answer now.
        canonical: the complete body in its one canonical form.
    """
    named = b"\0".join((_FORM, endpoint.encode(), version.encode(), canonical))
    return blake3(named, key=_key_of(secret)).digest(KEY_BYTES)


@lru_cache(4096)
def _key_of(secret: str) -> bytes:
    return blake3(secret.encode(), derive_key_context=_CONTEXT).digest()
