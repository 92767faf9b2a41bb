"""Whether this gateway can serve its model now, and if not, why."""

import time
from dataclasses import dataclass, field

from django.conf import settings

from gateway.runtime import runtime
from workers.state import WorkerState


@dataclass(frozen=True, slots=True)
class Readiness:
    """What ``/readyz`` tells.

    Attributes:
        reasons: sentences for a person, one for each thing that is missing; empty when ready.
        engines: state of each live worker, by its id.
    """

    reasons: list[str] = field(default_factory=list)
    engines: dict[str, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """True when a request for the configured model would be run."""
        return not self.reasons


def readiness() -> Readiness:
    """Look at what the runtime knows; asks nobody, so it is cheap and cannot hang."""
    workers = runtime().workers
    model = settings.SLUICE.model_name
    mine = [worker for worker in workers if worker.model in ("", model)]
    reasons = list(_missing_stores())
    if not any(worker.ready and worker.model == model for worker in mine):
        reasons += [_why(worker) for worker in mine] or [f"no engine for {model}: no worker has reported yet"]
    return Readiness(reasons, {worker.worker_id: worker.state for worker in workers})


def _why(worker: WorkerState) -> str:
    age_s = max(0, int(time.time()) - worker.started_at) if worker.started_at else 0
    return f"engine {worker.worker_id}: {worker.reason or worker.state} ({age_s} s)"


def _missing_stores() -> list[str]:
    missing = []
    if runtime().store_error:
        missing.append(f"valkey: {runtime().store_error}")
    if runtime().snapshot.current.revision < 0:
        missing.append("database: keys and plans are not loaded yet")
    return missing
