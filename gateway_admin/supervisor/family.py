"""All children of the supervisor: start, watch and end them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gateway_admin.supervisor.child import Child
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.reaper import collect, next_ended
from gateway_admin.supervisor.strays import record_of, write_records
from gateway_admin.supervisor.targets import write_targets
from gateway_admin.supervisor.unit import Unit


class Family:
    """The children by name, the environment they share and the files that list them."""

    def __init__(self, data_dir: Path, environ: Mapping[str, str], logs: Logs, new_port: Callable[[], int]) -> None:
        self._data_dir = data_dir
        self._environ = environ
        self._logs = logs
        self._new_port = new_port
        self._metrics_ports: dict[str, int] = {}
        self._children: dict[str, Child] = {}

    def add(self, units: Iterable[Unit]) -> None:
        """Take in units; they start when :meth:`start_due` finds them due."""
        self._children |= {unit.name: Child(unit, self._logs) for unit in units}

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def child(self, name: str) -> Child:
        """The child of that name."""
        return self._children[name]

    def start_due(self) -> None:
        """Start every child whose time has come and whose predecessors are up.

        Raises:
            OSError: a program cannot be started.
        """
        up = {name for name, child in self._children.items() if child.is_up}
        due = [child for child in self._children.values() if child.is_due and child.unit.after <= up]
        for child in due:
            child.start(self._environment(child.unit))
            self._write_files()

    def check_up(self) -> list[Child]:
        """Mark the services that have come up since the last call, and return them."""
        fresh = [child for child in self._children.values() if child.has_come_up()]
        for child in fresh:
            child.mark_up()
        return fresh

    def collect_ended(self) -> list[tuple[Child, int]]:
        """Collect who has ended; return each child of ours with its exit status."""
        ended: list[tuple[Child, int]] = []
        while (pid := next_ended()) is not None:
            owner = next((child for child in self._children.values() if child.pid == pid), None)
            if owner is None:
                collect(pid)
            else:
                ended.append((owner, owner.reap()))
        if ended:
            self._write_files()
        return ended

    def next_start_in_s(self) -> float | None:
        """Seconds until a child that died is due again; None when none waits."""
        times = [child.next_start_at for child in self._children.values() if child.is_waiting and child.failures]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _environment(self, unit: Unit) -> dict[str, str]:
        # The file that holds a setting for all goes with it where a unit has its own.
        shared = {name: text for name, text in self._environ.items() if name.removesuffix("_FILE") not in unit.env}
        environment = {**shared, **unit.env}
        if unit.has_metrics:
            port = self._new_port()
            self._metrics_ports[unit.name] = port
            environment["SLUICE_METRICS_PORT"] = str(port)
        return environment

    def _write_files(self) -> None:
        running = [(child.unit.name, child.pid) for child in self._children.values() if child.pid]
        write_records(self._data_dir, [record_of(name, pid) for name, pid in running])
        names = {name for name, _ in running}
        write_targets(self._data_dir, {name: port for name, port in self._metrics_ports.items() if name in names})
