"""What a class tolerates, from the settings of this gateway, for the operators' pages."""

from typing import TypedDict

from domain.config import Config
from domain.qos import POLICIES, QosClass


class LimitsView(TypedDict):
    """Bounds of one class; None where the class has none.

    Attributes:
        tolerated_ms: queueing that the class tolerates.
        ageing_ms: from here on a request gets its turn beside more urgent classes.
        deadline_ms: from here on a waiting request is refused.
        max_waiting: requests that may wait.
        max_waiting_bytes: bytes of their bodies.
    """

    tolerated_ms: int
    ageing_ms: int | None
    deadline_ms: int
    max_waiting: int
    max_waiting_bytes: int | None


def limits_by_class(config: Config) -> dict[str, LimitsView]:
    """Return the bounds of every class, by its short name."""
    deadlines = (config.queue_deadline_p0_ms, config.queue_deadline_p1_ms, config.queue_deadline_p2_ms)
    depths = (config.max_waiting_p0, config.max_waiting_p1, config.max_waiting_p2)
    ageing = (None, config.ageing_p1_ms, config.ageing_p2_ms)
    sizes = (None, None, config.max_waiting_p2_mib * 2**20)
    return {
        qos_class.value: {
            "tolerated_ms": POLICIES[qos_class].tolerated_queue_ms,
            "ageing_ms": ageing_ms,
            "deadline_ms": deadline_ms,
            "max_waiting": max_waiting,
            "max_waiting_bytes": max_bytes,
        }
        for qos_class, ageing_ms, deadline_ms, max_waiting, max_bytes in zip(
            QosClass, ageing, deadlines, depths, sizes, strict=True
        )
    }
