"""How an admitted request can end; small and closed, so that it is safe as a metric label."""

from enum import StrEnum


class Outcome(StrEnum):
    """Every admitted request ends in exactly one of these."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"  # the client left
    REJECTED = "rejected"  # the engine refused the body (the client's fault)
    EXPIRED = "expired"  # waited past its queue deadline, never run
    FAILED = "failed"  # the engine failed this request, retries spent
    TIMEOUT = "timeout"  # ran past the total time allowed
    GATEWAY_LOST = "gateway_lost"  # the gateway process that held the connection died


class RollbackCause(StrEnum):
    """Why an item went back to the ready set (requirement W6)."""

    WORKER_LOST = "worker_lost"
    WORKER_STOPPED = "worker_stopped"
    ENGINE_DEAD = "engine_dead"
    ENGINE_ERROR = "engine_error"
    LEADER_LOST = "leader_lost"  # it shared the run of an equal request, which ended without an answer
