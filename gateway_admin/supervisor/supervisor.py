"""The loop that brings an instance up, keeps it up and takes it down."""

import signal
import time
from collections.abc import Sequence

from gateway_admin.supervisor.child import Child
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.family import Family
from gateway_admin.supervisor.first_request import FirstAnswer, parse_answer
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.probe import read_readiness
from gateway_admin.supervisor.signals import Signals
from gateway_admin.supervisor.timeline import Timeline
from gateway_admin.supervisor.unit import Kind, Unit

_TURN_S = 0.25
_LOOK_S = 1.0
_TAIL_LINES = 20


class StartFailed(Exception):
    """A process did not come up; the message says which, why, and ends with the tail of its log."""


class Supervisor:
    """Runs a :class:`Family` on a single thread: every turn collects, starts and looks."""

    def __init__(
        self, family: Family, signals: Signals, console: Console, logs: Logs, timeline: Timeline, root_url: str
    ) -> None:
        self._family = family
        self._signals = signals
        self._console = console
        self._logs = logs
        self._timeline = timeline
        self._root_url = root_url
        self._is_ready = False

    @property
    def is_stopping(self) -> bool:
        """Whether somebody asked for the end."""
        return self._signals.stops > 0

    def bring_up(self, units: list[Unit]) -> bool:
        """Start all units and wait until an engine is in service; False when asked to stop meanwhile.

        Raises:
            StartFailed: a process failed too often.
        """
        self._family.add(units)
        while not self.is_stopping:
            self._turn(_TURN_S)
            if self._are_services_up() and self._engine_answers():
                return True
            if not self._are_services_up():
                self._console.status(self._what_starts())
        return False

    def first_answer(self, unit: Unit) -> FirstAnswer | None:
        """Run the job that sends one request; None when asked to stop meanwhile.

        Raises:
            StartFailed: there was no answer.
        """
        self._family.add([unit])
        job = self._family.child(unit.name)
        while not self.is_stopping:
            self._turn(_TURN_S)
            if job.is_up:
                self._is_ready = True
                return parse_answer(self._logs.tail(unit.name, 1)[0])
            self._console.status("first request: waiting for its answer")
        return None

    def keep_up(self, joining: Sequence[Unit] = ()) -> None:
        """Restart what dies until asked to stop; the units ``joining`` come up meanwhile."""
        self._family.add(joining)
        while not self.is_stopping:
            self._turn(_LOOK_S if self._looks_for_somebody() else None)

    def _turn(self, longest_s: float | None) -> None:
        """Look at everything once, then sleep until a signal, the next start, or for ``longest_s`` seconds."""
        for child, status in self._family.collect_ended():
            self._note_end(child, status)
        try:
            self._family.start_due()
        except OSError as error:
            raise StartFailed(f"Cannot start a process: {error}") from error
        for child in self._family.check_up():
            self._note_up(child)
        waits = [wait_s for wait_s in (longest_s, self._family.next_start_in_s()) if wait_s is not None]
        self._signals.sleep(min(waits, default=None))

    def _looks_for_somebody(self) -> bool:
        """Whether a service is still to come up, which no signal will tell."""
        return any(child.unit.is_up and not child.is_up for child in self._family)

    def _note_up(self, child: Child) -> None:
        if child.unit.is_up:
            if not self._is_ready:
                self._note_phase(child)
            self._console.say(f"{child.unit.name}: up")

    def _note_end(self, child: Child, status: int) -> None:
        name = child.unit.name
        if child.unit.kind is Kind.JOB and status == 0:
            self._note_phase(child)
            self._console.say(f"{child.unit.label}: done")
            return
        how = f"{name} {_describe(status)}"
        if not self._is_ready and child.failures >= child.unit.attempts:
            tail = self._logs.tail(name, _TAIL_LINES)
            raise StartFailed("\n".join((f"{how}. Its log ends with:", *tail, f"({self._logs.path(name)})")))
        wait_s = max(0.0, child.next_start_at - time.monotonic())
        reason = self._logs.last_line(name)
        self._console.say(f"{how}{reason and f' ({reason})'}; starting it again in {wait_s:.1f} s")

    def _note_phase(self, child: Child) -> None:
        self._timeline.add(child.unit.label, (child.up_at or 0.0) - (child.first_started_at or 0.0))

    def _are_services_up(self) -> bool:
        return all(child.is_up for child in self._family)

    def _engine_answers(self) -> bool:
        readiness = read_readiness(self._root_url)
        if not readiness.is_ready:
            self._console.status("; ".join(readiness.reasons) or "waiting for an engine")
            return False
        started = [child.first_started_at for child in self._family if child.unit.label == "worker"]
        first = min((at for at in started if at is not None), default=time.monotonic())
        self._timeline.add("engine in service", time.monotonic() - first)
        self._console.say("engine: in service")
        return True

    def _what_starts(self) -> str:
        jobs = [child for child in self._family if child.pid and child.unit.kind is Kind.JOB]
        told = [f"{job.unit.label}: {self._logs.last_line(job.unit.name) or 'working'}" for job in jobs]
        missing = [child.unit.name for child in self._family if child.pid and not child.is_up and child not in jobs]
        return "; ".join((*told, *(f"{name}: starting" for name in missing))) or "starting"


def _describe(status: int) -> str:
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
