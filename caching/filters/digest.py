"""What stands for an item in every filter of one name: 16 bytes, the same in all processes and releases."""

from blake3 import blake3

DIGEST_BYTES = 16
_CONTEXT = "sluice 2026-11 items of filters"


class Digester:
    """Makes the digests of one filter's items.

    A BLAKE3 keyed with the filter's name. The key is no secret; it only keeps filters of different names apart.
    """

    def __init__(self, name: str) -> None:
        self._key = blake3(name.encode(), derive_key_context=_CONTEXT).digest()

    def __call__(self, item: bytes) -> bytes:
        """The digest of an item: ``DIGEST_BYTES`` bytes."""
        return blake3(item, key=self._key).digest(DIGEST_BYTES)
