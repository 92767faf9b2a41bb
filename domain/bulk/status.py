"""What becomes of a bulk job and of its slices; the names of jobs' statuses are OpenAI's."""

from enum import StrEnum


class JobStatus(StrEnum):
    """Of one job."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class SliceState(StrEnum):
    """Of one slice."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


OPEN = frozenset({JobStatus.VALIDATING, JobStatus.IN_PROGRESS, JobStatus.FINALIZING, JobStatus.CANCELLING})
"""Statuses of jobs that have not ended."""

CANCELLABLE = frozenset({JobStatus.VALIDATING, JobStatus.IN_PROGRESS})
"""Statuses in which a job can be cancelled; in others it is about to end, or has."""
