"""Stores what workers tell of their engines' steps, beside the ledger: nothing that is billed depends on it."""

from typing import Any, cast

from redis import Redis

from domain.config import Config
from tracing.clock import now_us
from tracing.store.steps import StepsMessage, prune_steps, store_steps
from workers.settlement.side_thread import SideThread

STREAM = "sl:steps"
MESSAGES = 100
BLOCK_MS = 500
HOUR_US = 3_600_000_000


class StepKeeper(SideThread):
    """A thread that reads the stream ``sl:steps``, stores its messages and then deletes them from it.

    Several of them do no harm: what two read at once is stored once.
    """

    def __init__(self, redis: Redis, config: Config) -> None:
        super().__init__("steps")
        self._redis, self._keep_us = redis, int(config.engine_steps_hours * HOUR_US)

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

    def forget(self) -> None:
        """Delete steps that are too old."""
        prune_steps(now_us() - self._keep_us)


def _read(fields: dict[bytes, bytes]) -> StepsMessage | None:
    """A message; None for what is none, which would come again for ever."""
    try:
        return StepsMessage(fields[b"w"].decode(), int(fields[b"f"]), int(fields[b"t"]), fields[b"p"])
    except (KeyError, ValueError):
        return None
