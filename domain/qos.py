"""QoS classes: who waits for whom, and for how long (requirement W3)."""

from dataclasses import dataclass
from enum import StrEnum


class QosClass(StrEnum):
    """The three classes, most urgent first."""

    P0 = "p0"
    P1 = "p1"
    P2 = "p2"


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """What a class is promised and what it may take.

    Attributes:
        tolerated_queue_ms: queueing that the class tolerates (W3), the goal that is watched.
        queue_deadline_ms: an item that waited longer than this is refused, never run for nobody.
        max_retries: how often an item is run again after its engine was lost.
        engine_priority: handed to the engine; lower runs earlier.
        reserve_share: share of an engine's sequences that this class must leave free for more urgent ones.
        max_waiting: items that may wait in one ready set; over it the request is refused.
    """

    tolerated_queue_ms: int
    queue_deadline_ms: int
    max_retries: int
    engine_priority: int
    reserve_share: float
    max_waiting: int


POLICIES: dict[QosClass, ClassPolicy] = {
    QosClass.P0: ClassPolicy(10, 10_000, 1, 0, 0.0, 1_000),
    QosClass.P1: ClassPolicy(200, 60_000, 3, 10, 0.0, 5_000),
    QosClass.P2: ClassPolicy(5_000, 600_000, 5, 20, 0.125, 50_000),
}

_BY_SERVICE_TIER: dict[str, QosClass] = {
    "priority": QosClass.P0,
    "default": QosClass.P1,
    "auto": QosClass.P1,
    "flex": QosClass.P2,
}

SERVICE_TIERS: tuple[str, ...] = tuple(_BY_SERVICE_TIER)

SERVED_TIER: dict[QosClass, str] = {QosClass.P0: "priority", QosClass.P1: "default", QosClass.P2: "flex"}
"""The tier that a request of a class was really served at, as an answer tells it."""


def choose_class(service_tier: str | None, best_allowed: QosClass) -> QosClass:
    """Map a client's ``service_tier`` to a class, never better than its plan allows.

    Raises:
        KeyError: the tier is not one of ``SERVICE_TIERS``.
    """
    wanted = _BY_SERVICE_TIER[service_tier or "auto"]
    return max(wanted, best_allowed)  # "p0" < "p1" < "p2": the larger one is the less urgent
