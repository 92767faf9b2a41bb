"""The whitelist as every process holds it. It says what is kept and refreshed, and never who may read anything."""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import msgpack

_FORM = 1
_VERSION_BYTES = 12


@dataclass(frozen=True)
class HotList:
    """Keys of kept answers (16 bytes) and ids of stored prompts.

    Attributes:
        hot: those asked for most.
        pinned: those that operators have pinned.
        banned: those that operators have banned: neither kept nor given. A ban goes before everything else.
    """

    hot: frozenset[bytes] = field(default_factory=frozenset)
    pinned: frozenset[bytes] = field(default_factory=frozenset)
    banned: frozenset[bytes] = field(default_factory=frozenset)

    @cached_property
    def kept(self) -> frozenset[bytes]:
        """What the first level never evicts."""
        return (self.hot | self.pinned) - self.banned

    @cached_property
    def packed(self) -> bytes:
        """As bytes; equal lists are equal bytes."""
        parts = [sorted(part) for part in (self.hot, self.pinned, self.banned)]
        packed: bytes = msgpack.packb([_FORM, *parts])
        return packed

    @cached_property
    def version(self) -> bytes:
        """A short name of what is in it."""
        return blake2b(self.packed, digest_size=_VERSION_BYTES).hexdigest().encode()


def unpack(packed: bytes) -> HotList | None:
    """Read what :attr:`HotList.packed` made; None for what another release, or nobody, made."""
    try:
        form, *parts = msgpack.unpackb(packed, raw=True)
        if form != _FORM:
            return None
        hot, pinned, banned = (frozenset(part) for part in parts)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    return HotList(hot, pinned, banned)
