"""Counts launches of kernels at the GPU driver: a probe on ``cuLaunchKernel`` of libcuda, by process and stream."""

import platform
import re
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from domain.trace.launches import DRIVER, LaunchCounter, Launches
from tracing import logs
from tracing.clock import now_us
from tracing.kernel.uprobe import CannotProbe, Uprobe

__all__ = ["FUNCTION", "CannotProbe", "DriverProbe", "library_of"]

log = logs.get(__name__)

FUNCTION = "cuLaunchKernel"

PERIOD_S = 0.1

_STREAM_AT = {"x86_64": 24, "aarch64": 0}
"""Where the ninth argument, the stream, lies above the stack pointer when the function is entered."""

_LIBCUDA = re.compile(r"(/\S*/libcuda\.so[.\d]*)$", re.MULTILINE)


def library_of(pids: Iterable[int]) -> Path:
    """The file of the driver's library that one of these processes has loaded.

    Raises:
        CannotProbe: none has.
    """
    for pid in pids:
        try:
            found = _LIBCUDA.search(Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))
        except OSError:
            continue  # it ended
        if found:
            return Path(found[1])
    raise CannotProbe("no process of the engine has loaded libcuda: it uses no NVIDIA GPU")


class DriverProbe:
    """Counts what some processes launch, on a thread of its own."""

    def __init__(self, library: Path, pids: Iterable[int]) -> None:
        self._library, self._pids = library, frozenset(pids)
        self._counter, self._lock = LaunchCounter(DRIVER), threading.Lock()
        self._probe: Uprobe | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver-probe", daemon=True)

    def start(self) -> None:
        """Set the probe.

        Raises:
            CannotProbe: it cannot be set here.
        """
        at = _STREAM_AT.get(platform.machine())
        if at is None:
            raise CannotProbe(f"where {FUNCTION} finds its stream on a {platform.machine()} is not known")
        self._stream = struct.Struct(f"<{at}xQ")
        self._probe = Uprobe(self._library, FUNCTION, self._stream.size)
        self._thread.start()

    def take(self) -> list[Launches]:
        """Launches since the last call; the stream's handle is their name."""
        self._drain()
        with self._lock:
            return self._counter.take()

    def stop(self) -> None:
        """Remove the probe; safe to call twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            if self._probe:
                self._probe.close()

    def _run(self) -> None:
        lost = 0
        while not self._stop.wait(PERIOD_S):
            self._drain()
            if self._probe and self._probe.lost > lost:
                log.warning("launches_lost", launches=self._probe.lost - lost)
                lost = self._probe.lost

    def _drain(self) -> None:
        with self._lock:
            if self._probe is None:
                return
            # Both clocks are read here, so that one that is set does not shift what comes later.
            offset_us = now_us() - time.monotonic_ns() // 1000
            for pid, time_ns, stack in self._probe.calls():
                if pid in self._pids:
                    (stream,) = self._stream.unpack(stack)
                    self._counter.add(time_ns // 1000 + offset_us, pid, hex(stream))
