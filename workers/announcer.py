"""Shows in Flower the batches that were claimed without a ticket, with the events that Celery's own tasks send."""

import time
from typing import Protocol

# Under load a worker pulls hundreds of small batches a second; people see a sample, counters see all.
MIN_INTERVAL_S = 0.05


class Dispatcher(Protocol):
    """The part of Celery's event dispatcher that is used here; safe to call from any thread."""

    def send(self, type: str, **fields: object) -> None:  # noqa: A002 - Celery's name
        """Send one event."""


class Announcer:
    """Silent until Celery has connected."""

    def __init__(self) -> None:
        self._dispatcher: Dispatcher | None = None
        self._last = float("-inf")

    def attach(self, dispatcher: Dispatcher) -> None:
        """Use this dispatcher from now on."""
        self._dispatcher = dispatcher

    def started(self, batch_id: str, name: str, kwargs: dict[str, object]) -> bool:
        """A batch was claimed; False if this one is not shown."""
        now = time.monotonic()
        if self._dispatcher is None or now - self._last < MIN_INTERVAL_S:
            return False
        self._last = now
        self._dispatcher.send(
            "task-received", uuid=batch_id, name=name, args="()", kwargs=repr(kwargs), retries=0, root_id=batch_id
        )
        self._dispatcher.send("task-started", uuid=batch_id)
        return True

    def ended(self, batch_id: str, result: dict[str, object], runtime_s: float) -> None:
        """All its items have ended."""
        if self._dispatcher is not None:
            self._dispatcher.send("task-succeeded", uuid=batch_id, result=repr(result), runtime=runtime_s)
