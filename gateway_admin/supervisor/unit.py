"""What the supervisor runs: services that stay, and jobs that end."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

PATIENCE = 5
"""A service that dies this often before all is ready stops the start."""


class Kind(Enum):
    """Whether the end of a process is a failure."""

    SERVICE = "service"
    JOB = "job"


class Stage(Enum):
    """When a process is stopped, first to last, and the seconds that it gets to end by itself."""

    JOBS = 2.0
    GATEWAYS = 13.0
    WORKERS = 8.0
    SETTLEMENT = 7.0
    FLOWER = 3.0
    VALKEY = 5.0


@dataclass(frozen=True, slots=True)
class Unit:
    """One process to run.

    Attributes:
        name: unique; also the name of its log.
        label: what the console calls it while it starts.
        argv: the command.
        kind: service or job.
        stage: when it is stopped.
        after: names of units that must be up (a service) or finished (a job) first.
        env: added to the environment of all children.
        attempts: failures before ready that end the start.
        pass_fds: descriptors that it inherits.
        death_signal: what the kernel sends it when the supervisor dies.
        has_metrics: it serves ``/metrics`` on the port in ``SLUICE_METRICS_PORT``.
        is_up: whether it does its work now; None when running is enough.
    """

    name: str
    label: str
    argv: tuple[str, ...]
    kind: Kind
    stage: Stage
    after: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)
    attempts: int = PATIENCE
    pass_fds: tuple[int, ...] = ()
    death_signal: int = signal.SIGKILL
    has_metrics: bool = False
    is_up: Callable[[], bool] | None = None
