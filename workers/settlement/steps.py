"""Stores what workers tell of their engines' steps, beside the ledger: nothing that is billed depends on it."""

import threading
import time
from typing import Any, cast

from django.db import DatabaseError, close_old_connections, connections
from redis import Redis
from redis.exceptions import RedisError

from domain.config import Config
from tracing import logs
from tracing.clock import now_us
from tracing.store.steps import StepsMessage, prune_steps, store_steps

log = logs.get("steps")

STREAM = "sl:steps"
MESSAGES = 100
BLOCK_MS = 500
RETRY_S = 0.5
PRUNE_EVERY_S = 30.0
HOUR_US = 3_600_000_000


class StepKeeper:
    """A thread that reads the stream ``sl:steps``, stores its messages and then deletes them from it.

    Several of them do no harm: what two read at once is stored once.
    """

    def __init__(self, redis: Redis, config: Config) -> None:
        self._redis, self._keep_us = redis, int(config.engine_steps_hours * HOUR_US)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)
        self._prune_at = time.monotonic() + PRUNE_EVERY_S

    def start(self) -> None:
        """Begin to store."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end, and wait for the messages under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        finally:
            connections.close_all()

    def _turn(self) -> None:
        try:
            self.step()
            self._prune()
        except (RedisError, DatabaseError, OSError) as error:
            log.warning("steps_retry", error=str(error))
            close_old_connections()
            self._stop.wait(RETRY_S)
        except Exception:
            log.exception("steps_failed")  # the thread must live on
            connections.close_all()
            self._stop.wait(RETRY_S)

    def step(self) -> int:
        """Store some messages; returns how many there were."""
        reply = cast("list[Any] | None", self._redis.xread({STREAM: "0"}, count=MESSAGES, block=BLOCK_MS))
        entries = [entry for _, found in reply or () for entry in found]
        if not entries:
            return 0
        messages = {entry_id.decode(): _read(fields) for entry_id, fields in entries}
        store_steps({name: message for name, message in messages.items() if message})
        self._redis.xdel(STREAM, *messages)
        return len(entries)

    def _prune(self) -> None:
        if time.monotonic() > self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_EVERY_S
            prune_steps(now_us() - self._keep_us)


def _read(fields: dict[bytes, bytes]) -> StepsMessage | None:
    """A message; None for what is none, which would come again for ever."""
    try:
        return StepsMessage(fields[b"w"].decode(), int(fields[b"f"]), int(fields[b"t"]), fields[b"p"])
    except (KeyError, ValueError):
        return None
