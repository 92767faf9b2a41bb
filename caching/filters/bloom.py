"""Bloom filters of two libraries behind one port: which of them does the work is a setting."""

import math
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any, Protocol

from domain.filter_size import FilterSize


class Bloom(Protocol):
    """A filter of digests (16 bytes, see :mod:`caching.filters.digest`): "surely not in it" or "perhaps".

    Not for two threads at once while one of them adds.

    Attributes:
        size: bits as the library really keeps them; it may round up, by less than one for each hash and byte.
    """

    size: FilterSize

    def add(self, digests: Iterable[bytes]) -> None:
        """Put digests in."""

    def __contains__(self, digest: bytes) -> bool:
        """False: it is surely not in it."""

    def fill(self) -> float:
        """Share of its bits that are set. Reads all of them: not for every look."""

    def to_bytes(self) -> bytes:
        """The filter in the library's own form; :func:`from_bytes` reads it."""


class RustBloom:
    """By rbloom, whose bits are set and tested in Rust."""

    def __init__(self, size: FilterSize, packed: bytes | None = None) -> None:
        from rbloom import Bloom as Rust

        if packed is None:
            # The library wants keys and an error rate. These are the ones for which it comes to our bits and hashes.
            keys = max(1, round(size.bits * math.log(2) / size.hashes))
            self._bits = Rust(keys, 2.0**-size.hashes, _number)
        else:
            self._bits = Rust.load_bytes(packed, _number)
        self.size = FilterSize(self._bits.size_in_bits, size.hashes)
        self._add, self._has = self._bits.add, self._bits.__contains__

    def add(self, digests: Iterable[bytes]) -> None:
        """Put digests in."""
        self._bits.update(digests)

    def __contains__(self, digest: bytes) -> bool:
        return self._has(digest)

    def fill(self) -> float:
        """Share of its bits that are set, from the library's estimate of keys, which it makes of just that."""
        return -math.expm1(-self._bits.approx_items * self.size.hashes / self.size.bits)

    def to_bytes(self) -> bytes:
        """As rbloom saves it."""
        return self._bits.save_bytes()


class SlicedBloom:
    """By pybloom-live, in Python; each hash has a slice of the bits to itself."""

    def __init__(self, size: FilterSize, packed: bytes | None = None) -> None:
        from pybloom_live import BloomFilter

        self._bits: Any
        if packed is None:
            keys = max(1, round(size.bits * math.log(2) / size.hashes))
            self._bits = BloomFilter(keys, 2.0**-size.hashes)
        else:
            self._bits = BloomFilter.fromfile(BytesIO(packed))
        # It would refuse to take more keys than that; here it is its fill that tells when a larger one is due.
        self._bits.capacity = 2**63
        self.size = FilterSize(self._bits.num_bits, self._bits.num_slices)

    def add(self, digests: Iterable[bytes]) -> None:
        """Put digests in."""
        for digest in digests:
            self._bits.add(digest.hex(), skip_check=True)

    def __contains__(self, digest: bytes) -> bool:
        return digest.hex() in self._bits

    def fill(self) -> float:
        """Share of its bits that are set."""
        return float(self._bits.bitarray.count() / self._bits.num_bits)

    def to_bytes(self) -> bytes:
        """As pybloom-live saves it."""
        out = BytesIO()
        self._bits.tofile(out)
        return out.getvalue()


_LIBRARIES: dict[str, Callable[[FilterSize, bytes | None], Bloom]] = {"rbloom": RustBloom, "pybloom-live": SlicedBloom}

LIBRARIES = tuple(_LIBRARIES)


def make(library: str, size: FilterSize) -> Bloom:
    """An empty filter of a library in :data:`LIBRARIES`.

    Raises:
        ImportError: the library is not installed.
        KeyError: there is no such library.
    """
    return _LIBRARIES[library](size, None)


def from_bytes(library: str, size: FilterSize, packed: bytes) -> Bloom:
    """The filter that :meth:`Bloom.to_bytes` of the same library packed; of other bytes a library may do anything.

    Raises:
        ImportError: the library is not installed.
        KeyError: there is no such library.
        ValueError: it is a filter of another size.
    """
    bloom = _LIBRARIES[library](size, packed)
    if bloom.size != size:
        raise ValueError(f"a packed filter of {bloom.size}, not {size}")
    return bloom


def _number(digest: bytes) -> int:
    """What rbloom takes as a hash: 128 bits with a sign."""
    return int.from_bytes(digest, "little", signed=True)
