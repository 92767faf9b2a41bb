"""The filter that clients hold: its bits and its form in bytes, see docs/reference/filter-format.md.

Only what every language has in its standard library is used, so that a client needs nothing else.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from domain.filter_size import FilterSize

MAGIC = b"SLF1"
MAX_BITS, MIN_BITS = 2**23, 2**10
MAX_HASHES = 16

_HEAD = struct.Struct("<4sIB7xQQ")
_MARK = b"sluice filter 1"
_WORD = 2**64


def positions(item: bytes, size: FilterSize) -> Iterator[int]:
    """The bits of an item, by double hashing: h1 + i h2.

    A. Kirsch and M. Mitzenmacher, "Less hashing, same performance: building a better Bloom filter", ESA 2006.
    """
    digest = blake2b(item, digest_size=16, person=_MARK).digest()
    first, step = struct.unpack("<QQ", digest)
    for index in range(size.hashes):
        yield (first + index * (step | 1)) % _WORD % size.bits


def pack(items: Iterable[bytes], size: FilterSize, complete_ms: int) -> bytes:
    """A filter of these items in the form that clients read.

    Args:
        items: what exists.
        size: ``bits`` a multiple of 8.
        complete_ms: every item that was made before (ms of the epoch) and exists is among them.
    """
    bits = bytearray(size.bits // 8)
    count = 0
    for item in items:
        count += 1
        for position in positions(item, size):
            bits[position >> 3] |= 1 << (position & 7)
    return _HEAD.pack(MAGIC, size.bits, size.hashes, max(0, complete_ms), count) + bytes(bits)
