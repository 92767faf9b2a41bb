"""What the person at the terminal sees, and a log of it."""

import contextlib
import shutil
import time
from typing import IO

_REPEAT_AFTER_S = 10.0
_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_CLEAR_LINE = "\r\x1b[2K"


class Console:
    """Lines with the seconds since the start; on a terminal also one line that changes in place.

    A terminal that has gone away is no reason to stop: writing to it fails silently.
    """

    def __init__(self, out: IO[str], *, no_color: bool = False) -> None:
        self._out = out
        self._log: IO[str] | None = None
        self._is_terminal = out.isatty()
        self._has_colour = self._is_terminal and not no_color
        self._started = time.monotonic()
        self._status = ""
        self._status_at = 0.0
        self._is_status_shown = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def log_to(self, log: IO[str]) -> None:
        """Keep a copy of all that is said from now on in ``log``."""
        self._log = log

    def say(self, text: str) -> None:
        """Print a line with its time, and log it."""
        stamp = f"[{self.elapsed_s:6.1f} s]"
        if self._log:
            with contextlib.suppress(OSError):  # a full disk is the children's trouble, not a reason to leave them
                self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
                self._log.flush()
        self._clear_status()
        self._write(f"{self._paint(_DIM, stamp)} {text}\n")

    def status(self, text: str) -> None:
        """Show what is going on: in place on a terminal, else as a line when it changes and not too often."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            line = f"[{self.elapsed_s:6.1f} s] {text}"[: width - 1]
            self._write(_CLEAR_LINE + self._paint(_DIM, line))
            self._is_status_shown = True
            return
        is_old = time.monotonic() - self._status_at >= _REPEAT_AFTER_S
        if text != self._status and (is_old or not self._status):
            self._status, self._status_at = text, time.monotonic()
            self.say(text)

    def show(self, text: str) -> None:
        """Print ``text`` as it is and do not log it: it may hold secrets."""
        self._clear_status()
        self._write(text + "\n")

    def heading(self, text: str) -> str:
        """``text``, bold where that can be seen."""
        return self._paint(_BOLD, text)

    def _clear_status(self) -> None:
        if self._is_status_shown:
            self._write(_CLEAR_LINE)
            self._is_status_shown = False

    def _paint(self, code: str, text: str) -> str:
        return f"{code}{text}{_OFF}" if self._has_colour else text

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text)
            self._out.flush()
