"""A thread beside the ledger that stores what is told, and forgets what is too old: nothing billed depends on it."""

import threading
import time

from django.db import DatabaseError, close_old_connections, connections
from redis.exceptions import RedisError

from tracing import logs

log = logs.get("settlement")

RETRY_S = 0.5
PRUNE_EVERY_S = 30.0


class SideThread:
    """Works in turns until it is stopped; where the store or the database is away it waits and goes on.

    A subclass says what a turn is, and what is forgotten.
    """

    def __init__(self, name: str) -> None:
        self._name, self._stop = name, threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._prune_at = time.monotonic() + PRUNE_EVERY_S

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end, and wait for the turn under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)

    def step(self) -> int:
        """Store some messages; returns how many there were."""
        raise NotImplementedError

    def resume(self) -> None:
        """What comes before the first step, and before the next one after a failure; nothing by default."""

    def forget(self) -> None:
        """Delete what is too old."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turns()
        finally:
            connections.close_all()

    def _turns(self) -> None:
        """Turn after turn, until one fails."""
        try:
            self.resume()
            while not self._stop.is_set():
                self.step()
                self._prune()
        except (RedisError, DatabaseError, OSError) as error:
            log.warning(f"{self._name}_retry", error=str(error))
            close_old_connections()
            self._stop.wait(RETRY_S)
        except Exception:
            log.exception(f"{self._name}_failed")  # the thread must live on
            connections.close_all()
            self._stop.wait(RETRY_S)

    def _prune(self) -> None:
        if time.monotonic() > self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_EVERY_S
            self.forget()
