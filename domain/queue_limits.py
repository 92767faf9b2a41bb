"""How long and how many requests of a class may wait."""

from dataclasses import dataclass

from domain.config import Config
from domain.qos import QosClass


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of one queue.

    Attributes:
        deadline_ms: an item that has waited so long is refused, never run for nobody.
        max_waiting: items that may wait; further ones are refused.
        max_waiting_bytes: bytes of their bodies; None for any.
    """

    deadline_ms: int
    max_waiting: int
    max_waiting_bytes: int | None


def queue_limits(config: Config, qos_class: QosClass) -> QueueLimits:
    """The bounds that the settings give to a class; only P2's memory is bounded in bytes (W3)."""
    if qos_class is QosClass.P0:
        return QueueLimits(config.queue_deadline_p0_ms, config.max_waiting_p0, None)
    if qos_class is QosClass.P1:
        return QueueLimits(config.queue_deadline_p1_ms, config.max_waiting_p1, None)
    return QueueLimits(config.queue_deadline_p2_ms, config.max_waiting_p2, config.max_waiting_p2_mib * 2**20)
