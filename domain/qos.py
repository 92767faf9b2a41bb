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
    """What a class is promised and what it may take. What operators may change is in :class:`domain.config.Config`.

    Attributes:
        tolerated_queue_ms: queueing that the class tolerates (W3), the goal that is watched.
        max_retries: how often an item is run again after its engine was lost (W3).
        engine_priority: handed to the engine; lower runs earlier.
    """

    tolerated_queue_ms: int
    max_retries: int
    engine_priority: int


POLICIES: dict[QosClass, ClassPolicy] = {
    QosClass.P0: ClassPolicy(10, 1, 0),
    QosClass.P1: ClassPolicy(200, 3, 10),
    QosClass.P2: ClassPolicy(5_000, 5, 20),
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
