"""End everything, in the order in which nothing is lost."""

import contextlib
import os
import signal
import time

import psutil

from gateway_admin.supervisor.child import Child
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.family import Family
from gateway_admin.supervisor.signals import Signals
from gateway_admin.supervisor.unit import Stage

_AT_ONCE_S = 2.0
_POLL_S = 0.1


class Stopping:
    """The way down: each stage is asked, waited for, and ended by force when its time is over."""

    def __init__(self, family: Family, signals: Signals, console: Console) -> None:
        self._family = family
        self._signals = signals
        self._console = console

    def run(self) -> None:
        """Stop all stages in order; another request to stop meanwhile ends everything at once."""
        for stage in Stage:
            members = [child for child in self._family if child.unit.stage is stage and child.pid]
            if members:
                self._stop(members, stage)
        self._end_orphans()

    @property
    def _is_hurried(self) -> bool:
        return self._signals.stops > 1

    def _stop(self, members: list[Child], stage: Stage) -> None:
        self._console.status(f"stopping {', '.join(child.unit.name for child in members)}")
        for child in members:
            child.terminate()
        # Even in a hurry Valkey gets a moment: its file holds what has been admitted.
        shortest_s = _AT_ONCE_S if stage is Stage.VALKEY else 0.0
        started = time.monotonic()
        while any(child.pid for child in members):
            limit_s = shortest_s if self._is_hurried else stage.value
            if time.monotonic() - started >= limit_s:
                break
            self._signals.sleep(_POLL_S)
            self._family.collect_ended()
        self._kill([child for child in members if child.pid])

    def _kill(self, members: list[Child]) -> None:
        for child in members:
            if not self._is_hurried:
                self._console.say(f"{child.unit.name} did not stop in time: killed")
            child.signal_group(signal.SIGKILL)
        while any(child.pid for child in members):
            self._signals.sleep(_POLL_S)
            self._family.collect_ended()

    def _end_orphans(self) -> None:
        """End what left its group; as the reaper of its descendants this process is their parent by now."""
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
