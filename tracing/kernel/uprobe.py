"""A probe on a function of a library, through the kernel's perf events.

The kernel writes each call into a ring in memory, one ring a CPU. The probe is a file descriptor: it is gone when the
process is, however that ends, and leaves no name behind as one made through tracefs would.
"""

import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from tracing.kernel.elf import NoSuchFunction, file_offset

PMU = Path("/sys/bus/event_source/devices/uprobe/type")
ONLINE = Path("/sys/devices/system/cpu/online")

RING_PAGES = 128
"""Of each CPU, a power of two: half a MiB, 6,500 calls."""

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIiQIHH")
_USE_CLOCK = 1 << 25
_CLOCK_MONOTONIC = 1
_SAMPLE = 2 | 4 | 1 << 13  # thread, time, stack of the caller
_CLOSE_ON_EXEC = 8

_HEAD, _TAIL, _DATA = 1024, 1032, 1040
_LOST_RECORD, _SAMPLE_RECORD = 2, 9
_RECORD = struct.Struct("<IHH")
_CALL = struct.Struct("<IIQQ")  # process, thread, time, bytes of stack


class CannotProbe(Exception):
    """A probe cannot be set here; the message says why in one line."""


class Uprobe:
    """Calls of one exported function by any process, with the top of the caller's stack.

    Attributes:
        lost: calls that came when a ring was full.
    """

    def __init__(self, library: Path, function: str, stack_bytes: int) -> None:
        """Set it.

        Args:
            library: the file; processes that have it mapped are probed, and those that will.
            function: its name.
            stack_bytes: how much of the stack is wanted, a multiple of 8.

        Raises:
            CannotProbe: see there.
        """
        self.lost = 0
        self._stack_bytes = stack_bytes
        self._rings: list[tuple[int, mmap.mmap]] = []
        try:
            offset, kind = file_offset(library, function), int(PMU.read_text(encoding="ascii"))
        except NoSuchFunction as error:
            raise CannotProbe(str(error)) from error
        except OSError as error:
            raise CannotProbe(f"this kernel has no uprobes: {PMU} is missing") from error
        path = ctypes.create_string_buffer(os.fsencode(library))
        attributes = _ATTRIBUTES.pack(
            *(kind, _ATTRIBUTES.size, 0, 1, _SAMPLE, 0, _USE_CLOCK, 0, 0),
            *(ctypes.addressof(path), offset, 0, 0, stack_bytes, _CLOCK_MONOTONIC, 0, 0, 0, 0),
        )
        try:
            for cpu in _cpus():
                self._rings.append(_ring(attributes, cpu))
        except OSError as error:
            self.close()
            raise CannotProbe(_why(error)) from error

    def close(self) -> None:
        """Remove it; safe to call twice."""
        rings, self._rings = self._rings, []
        for descriptor, ring in rings:
            ring.close()
            os.close(descriptor)

    def calls(self) -> Iterator[tuple[int, int, bytes]]:
        """Calls since the last time: process, nanoseconds of the monotonic clock, top of the stack."""
        for _, ring in self._rings:
            yield from self._read(ring)

    def _read(self, ring: mmap.mmap) -> Iterator[tuple[int, int, bytes]]:
        head, tail, start, size = struct.unpack_from("<QQQQ", ring, _HEAD)
        first, end = tail % size, tail % size + head - tail
        new = ring[start + first : start + min(end, size)] + ring[start : start + max(0, end - size)]
        struct.pack_into("<Q", ring, _TAIL, head)
        at = 0
        while at < len(new):
            kind, _, length = _RECORD.unpack_from(new, at)
            if kind == _SAMPLE_RECORD:
                pid, _, time_ns, _ = _CALL.unpack_from(new, at + _RECORD.size)
                stack = at + _RECORD.size + _CALL.size
                yield pid, time_ns, new[stack : stack + self._stack_bytes]
            elif kind == _LOST_RECORD:
                self.lost += struct.unpack_from("<Q", new, at + _RECORD.size + 8)[0]
            at += length


def _ring(attributes: bytes, cpu: int) -> tuple[int, mmap.mmap]:
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    descriptor = libc.syscall(number, attributes, -1, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        return descriptor, mmap.mmap(descriptor, (1 + RING_PAGES) * mmap.PAGESIZE)
    except OSError:
        os.close(descriptor)
        raise


def _cpus() -> Iterator[int]:
    for part in ONLINE.read_text(encoding="ascii").strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _why(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "the kernel lets only root set probes (or whoever has the capability PERFMON)"
    return f"the kernel sets no probe: {error.strerror}"
