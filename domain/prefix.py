"""Names of a prompt's prefixes, so that equal beginnings are known without the text.

Hash number k covers everything up to edge k, so two prompts share it only if they are equal up to there. Edges lie
every 256 bytes (about 64 tokens) at first and every 1,024 bytes after 16 KiB; what comes after 80 KiB is not named.
"""

from collections.abc import Iterable
from hashlib import blake2b

BYTES_PER_TOKEN = 4
FINE_BYTES, FINE_EDGES = 256, 64
COARSE_BYTES, COARSE_EDGES = 1024, 64
HASH_BYTES = 8


def prefix_hashes(parts: Iterable[bytes]) -> bytes:
    """The hashes of all prefixes of the joined ``parts``, 8 bytes each, the shortest first; b"" below 256 bytes."""
    digest, hashes, room, edges = blake2b(digest_size=HASH_BYTES), [], FINE_BYTES, 0
    for part in parts:
        start = 0
        while len(part) - start >= room:
            digest.update(part[start : start + room])
            hashes.append(digest.digest())
            start, edges = start + room, edges + 1
            room = FINE_BYTES if edges < FINE_EDGES else COARSE_BYTES
            if edges == FINE_EDGES + COARSE_EDGES:
                return b"".join(hashes)
        digest.update(part[start:])
        room -= len(part) - start
    return b"".join(hashes)


def own(hashes: bytes, salt: str) -> bytes:
    """The same hashes as only one tenant knows them: equal prompts of two tenants share nothing.

    Args:
        hashes: of :func:`prefix_hashes`.
        salt: of the tenant, hexadecimal, at least 16 digits.
    """
    if not hashes:
        return b""
    key = bytes.fromhex(salt[:16]) * (len(hashes) // HASH_BYTES)
    return (int.from_bytes(hashes) ^ int.from_bytes(key)).to_bytes(len(hashes))
