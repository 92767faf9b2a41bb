"""What travels from workers to gateways: lists of events, packed with msgpack.

An event is a list: request id, attempt, sequence number, kind, and what the kind carries:

====  =====================================================================
kind  carries
====  =====================================================================
F     one frame: JSON bytes, prompt tokens, completion tokens so far, ids of its new tokens (packed, may be empty);
      with an attempt's first one its run so far (:func:`pack_run`)
D     the end of a complete answer: prompt, cached, completion tokens, version of the model that answered, its run
E     the end with an error: outcome, HTTP status, the inside of the error object as JSON bytes (may be empty), and the
      run if there was one
L     the engine was lost: cause, and of the attempt that was lost worker, batch and when it was claimed (ms); none of
      these for one that shared another's run. The attempt is the next one.
J     to the gateway of a request that is computed: an equal one shares its answer: request id and gateway of that one,
      and the attempt under which that one takes frames (it grows with every leader that it loses)
====  =====================================================================

The sequence number counts an attempt's frames from 0 (and is -1 on what is not a frame), so that a message sent twice
is seen once and a missing one is noticed.
"""

from array import array
from typing import Any

import msgpack

from domain.trace.record import Run, flat_run, read_run

Event = list[Any]

FRAME, DONE, ERROR, LOST, JOINED = b"F", b"D", b"E", b"L", b"J"


def pack(events: list[Event]) -> bytes:
    """Pack events for one message."""
    packed: bytes = msgpack.packb(events, use_bin_type=False)
    return packed


def pack_ids(ids: tuple[int, ...]) -> bytes:
    """Token ids as 4 bytes each, so that packed ones can be joined."""
    return array("I", ids).tobytes()


def unpack_ids(packed: bytes) -> tuple[int, ...]:
    """Read token ids."""
    return tuple(array("I", packed))


def pack_run(run: Run) -> bytes:
    """Pack what is told of one attempt."""
    packed: bytes = msgpack.packb(flat_run(run))
    return packed


def unpack_run(packed: bytes) -> Run:
    """Unpack it.

    Raises:
        TypeError, ValueError: it is none.
    """
    return read_run(msgpack.unpackb(packed))


def unpack(message: bytes) -> list[Event]:
    """Unpack one message; all text stays bytes."""
    events: list[Event] = msgpack.unpackb(message, raw=True, use_list=True)
    return events or []
