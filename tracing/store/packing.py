"""How a record becomes bytes and is read again."""

import sys
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack

from domain.trace.record import Record, flat_record, read_record

_FAST = 1
_MOST_US = 2**32 - 1


def pack_lengths(lengths_us: Sequence[int]) -> bytes:
    """Lengths of stages, 4 bytes each, least significant first; an hour and more than 71 minutes is cut to that."""
    packed = array("I", [min(length, _MOST_US) for length in lengths_us])
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_lengths(packed: bytes | memoryview) -> tuple[int, ...]:
    """Read them."""
    lengths = array("I", bytes(packed))
    if sys.byteorder == "big":
        lengths.byteswap()
    return tuple(lengths)


def pack_moments(record: Record) -> bytes:
    """All of a record."""
    return zlib.compress(msgpack.packb(flat_record(record)), _FAST)


def unpack_moments(packed: bytes | memoryview) -> Record:
    """Read it.

    Raises:
        ValueError, TypeError, zlib.error: it is none.
    """
    return read_record(msgpack.unpackb(zlib.decompress(bytes(packed)), use_list=True))


def read_message(packed: bytes) -> Iterator[tuple[str, Record]]:
    """The records of one message, each with why it is kept whole; what cannot be read is left out with all after it."""
    unpacker = msgpack.Unpacker(use_list=True)
    unpacker.feed(packed)
    entry: Sequence[Any]
    try:
        for entry in unpacker:
            yield entry[0], read_record(entry[1])
    except (ValueError, TypeError, IndexError, msgpack.UnpackException):
        return
