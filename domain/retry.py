"""Retries after a lost engine: how long an item waits before it goes back (W3); how often is in ``domain.qos``."""

from domain.qos import QosClass

FIRST_BACKOFF_MS = 50
FIXED_INTERVAL_MS = 200


def delay_ms(qos_class: QosClass, attempt: int) -> int:
    """Milliseconds before retry number ``attempt`` (1 for the first): P0 doubles, P1 is fixed, P2 does not wait.

    Raises:
        ValueError: ``attempt`` is below 1; the first run is no retry.
    """
    if attempt < 1:
        raise ValueError(f"Retries are counted from 1, not {attempt}.")
    if qos_class is QosClass.P0:
        return FIRST_BACKOFF_MS << (attempt - 1)
    return FIXED_INTERVAL_MS if qos_class is QosClass.P1 else 0
