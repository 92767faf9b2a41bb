"""Ringing: one Celery message tells the workers that work waits. On a thread, so that a slow broker delays nobody."""

import queue
import threading

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from domain.qos import QosClass
from tracing import logs, metrics
from tracing.clock import now_us
from workers import tasks

log = logs.get(__name__)

# A burst larger than this is a broker that does not answer; the workers look for work themselves.
MAX_PENDING = 1_000


class Ringer:
    """Publishes tickets from a thread of its own, over one held connection."""

    def __init__(self, gateway_id: str) -> None:
        self._gateway_id = gateway_id
        self._pending: queue.Queue[tuple[str, QosClass, int] | None] = queue.Queue(MAX_PENDING)
        self._thread = threading.Thread(target=self._run, name="ringer", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """Publish what is pending and end."""
        self._pending.put(None)
        self._thread.join(timeout=3)

    def ring(self, model: str, qos_class: QosClass) -> None:
        """Ask for one ticket; returns at once."""
        try:
            self._pending.put_nowait((model, qos_class, now_us()))
        except queue.Full:
            metrics.ring_failures.inc()

    def _run(self) -> None:
        while (wanted := self._pending.get()) is not None:
            model, qos_class, rung_us = wanted
            try:
                tasks.ring(model, qos_class, self._gateway_id, rung_us)
                metrics.rings.labels(qos_class.value).inc()
            except (OperationalError, RedisError, OSError) as error:
                metrics.ring_failures.inc()
                log.warning("ring_failed", error=str(error))
