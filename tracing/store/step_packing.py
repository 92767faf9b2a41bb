"""How steps and launches become bytes and are read again. Free of the database: workers pack, others store."""

import zlib
from collections.abc import Sequence

import msgpack

from domain.trace.launches import Launches, flat_launches, read_launches
from domain.trace.step import Step, flat_step, read_step

_FAST = 1


def pack_steps(steps: Sequence[Step], launches: Sequence[Launches] = ()) -> bytes:
    """Steps, and launches beside them."""
    flat = [[flat_step(step) for step in steps], [flat_launches(one) for one in launches]]
    return zlib.compress(msgpack.packb(flat), _FAST)


def unpack_steps(packed: bytes) -> tuple[list[Step], list[Launches]]:
    """Read them.

    Raises:
        ValueError, TypeError, zlib.error: they are none.
    """
    steps, launches = msgpack.unpackb(zlib.decompress(packed), use_list=True)
    return [read_step(flat) for flat in steps], [read_launches(flat) for flat in launches]
