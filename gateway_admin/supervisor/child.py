"""One unit and the process that runs it now."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping

from gateway_admin.supervisor.backoff import Backoff
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.spawn import spawn
from gateway_admin.supervisor.unit import Kind, Unit


class Child:
    """A unit's process: started, watched, ended with its whole group.

    Attributes:
        unit: what it runs.
        is_up: it has come up at least once (a service), or has ended well (a job).
        failures: deaths so far.
        started_at: monotonic seconds of the last start.
        first_started_at: of the first one; None before it.
        up_at: when ``is_up`` became true; None before.
        next_start_at: monotonic seconds before which it must not start again.
    """

    def __init__(self, unit: Unit, logs: Logs) -> None:
        self.unit = unit
        self.is_up = False
        self.failures = 0
        self.started_at = 0.0
        self.first_started_at: float | None = None
        self.up_at: float | None = None
        self.next_start_at = 0.0
        self._logs = logs
        self._backoff = Backoff()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id, also of its group and session; None while it does not run."""
        return self._process.pid if self._process else None

    @property
    def is_waiting(self) -> bool:
        """Whether it does not run, but is meant to."""
        return self._process is None and not (self.unit.kind is Kind.JOB and self.is_up)

    @property
    def is_due(self) -> bool:
        """Whether it waits for nothing but its predecessors."""
        return self.is_waiting and time.monotonic() >= self.next_start_at

    def has_come_up(self) -> bool:
        """Whether a service that was not up does its work now."""
        if self.is_up or self._process is None or self.unit.kind is Kind.JOB:
            return False
        return self.unit.is_up is None or self.unit.is_up()

    def start(self, env: Mapping[str, str]) -> None:
        """Start the process with ``env``.

        Raises:
            OSError: the program cannot be started.
        """
        if self.first_started_at is None:
            self._logs.rotate(self.unit.name)
        with os.fdopen(self._logs.open(self.unit.name), "ab") as log:
            self._process = spawn(
                self.unit.argv, env, log, pass_fds=self.unit.pass_fds, death_signal=self.unit.death_signal
            )
        self.started_at = time.monotonic()
        self.first_started_at = self.first_started_at or self.started_at

    def mark_up(self) -> None:
        """Note that it does its work."""
        self.is_up = True
        self.up_at = self.up_at or time.monotonic()

    def reap(self) -> int:
        """Collect the process, which has ended, and end what it left in its group; return its exit status.

        The status is negative for a signal, as :mod:`subprocess` has it. A failure sets when to start again.
        """
        assert self._process is not None
        # Before the leader is collected, so that its number cannot belong to anybody else yet.
        self.signal_group(signal.SIGKILL)
        status = self._process.wait()
        self._process = None
        if self.unit.kind is Kind.JOB and status == 0:
            self.mark_up()
        else:
            self.failures += 1
            lived_s = time.monotonic() - self.started_at
            self.next_start_at = time.monotonic() + self._backoff.next_s(lived_s)
        return status

    def terminate(self) -> None:
        """Ask the process, not its helpers, to end: it knows in which order."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    def signal_group(self, number: int) -> None:
        """Send signal ``number`` to the process and all that it started."""
        if self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
