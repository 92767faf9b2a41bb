"""Signals as something to wait for."""

import os
import select
import signal
import time
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_REQUEST_S = 0.3


class Signals:
    """Counts requests to stop, and wakes whoever sleeps when one comes or a child ends.

    Attributes:
        stops: requests to stop so far; the second means "at once".
    """

    def __init__(self) -> None:
        self.stops = 0
        self._stopped_at = -_SAME_REQUEST_S
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in STOPPING:
            # Started by nohup, it goes on when the terminal closes.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_stop)
        # A handler, so that the signal is not dropped: it wakes the pipe.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def sleep(self, seconds: float | None) -> None:
        """Wait for ``seconds`` (None: for ever), or until a signal comes."""
        readable, _, _ = select.select([self._read_end], [], [], seconds)
        if readable:
            os.read(self._read_end, 4096)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        # One request may arrive twice: from the terminal or a service manager, and again through make.
        now = time.monotonic()
        if now - self._stopped_at >= _SAME_REQUEST_S:
            self._stopped_at = now
            self.stops += 1
