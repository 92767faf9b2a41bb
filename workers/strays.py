"""Items that the store thinks are held here but that do not run: the reply to a claim was lost on its way."""

import asyncio
from collections.abc import Container
from typing import cast

from redis.exceptions import RedisError

from domain.outcome import RollbackCause
from tracing import logs
from workers.ready.ready_set import ReadySet

log = logs.get(__name__)

AUDIT_S = 2.0


class Strays:
    """Compares what the store says with ``running``, by request id."""

    def __init__(self, ready: ReadySet, worker_id: str, running: Container[str]) -> None:
        self._ready, self._worker_id, self._running = ready, worker_id, running
        self._seen: set[str] = set()

    async def watch(self) -> None:
        """Compare for ever."""
        while True:
            await asyncio.sleep(AUDIT_S)
            try:
                await self.give_back()
            except (RedisError, OSError) as error:
                log.warning("audit_failed", error=str(error))

    async def give_back(self) -> None:
        """Give strays back. One that is seen once may just have ended; seen twice, nobody else will ever touch it.

        Raises:
            redis.exceptions.RedisError: the store does not answer.
        """
        redis = self._ready.redis
        members = cast("set[bytes]", await redis.smembers(f"sl:held:{self._worker_id}"))
        strays = {name for member in members if (name := member.decode()) not in self._running}
        for request_id in strays & self._seen:
            log.warning("stray_item", request_id=request_id)
            attempt = cast("bytes | None", await redis.hget(f"sl:item:{request_id}", "attempt"))
            await self._ready.lose(request_id, self._worker_id, int(attempt or 0), RollbackCause.WORKER_LOST.value)
        self._seen = strays
