"""Sends what became of requests to whoever stores it: many records in one message, off the path of any answer.

Tracing fails open. While the store is away records wait, up to a bound; further ones are dropped and counted.
"""

import asyncio
from collections import deque
from typing import cast

import msgpack
from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.config import Config
from domain.trace.keep import SlowMark, why_kept
from domain.trace.record import Record, flat_record
from tracing import logs, metrics

log = logs.get(__name__)

STREAM = "sl:traces"

MAX_MESSAGES = 3_000
"""Messages that wait for whoever stores them, some ten a second; older ones are dropped by the store. With
``MESSAGE_BYTES`` each they take at most some 400 MB."""

PERIOD_S = 0.2
AT_ONCE = 200
MESSAGE_BYTES = 128 * 1024
MAX_WAITING = 20_000


class Records:
    """Made once a process. Use from one event loop.

    Attributes:
        share_traces: thousands of its requests have one trace, see :func:`domain.trace.keep.why_kept`.
    """

    def __init__(self, config: Config) -> None:
        self._is_on, self._sample, self._slow = config.trace_requests, config.trace_sample, SlowMark()
        self.share_traces = False
        self._waiting: deque[bytes] = deque()
        self._sending = asyncio.Lock()

    def give(self, record: Record) -> None:
        """Store one record; its whole tree where it is worth it, one row in any case."""
        if not self._is_on:
            return
        why = why_kept(record, self._sample, is_slow=self._slow.is_slow(record), shares_trace=self.share_traces)
        if len(self._waiting) >= MAX_WAITING:
            metrics.traces_dropped.labels("waiting").inc()
            return
        metrics.traces.labels(why or "row").inc()
        self._waiting.append(cast("bytes", msgpack.packb([why, flat_record(record, whole=bool(why))])))

    async def run(self, redis: Redis) -> None:
        """Send for ever."""
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.flush(redis)

    async def flush(self, redis: Redis) -> None:
        """Send what waits; what cannot be sent waits on."""
        async with self._sending:
            await self._send(redis)

    async def _send(self, redis: Redis) -> None:
        while self._waiting:
            part = self._next_part()
            try:
                await redis.xadd(STREAM, {"m": b"".join(part)}, maxlen=MAX_MESSAGES, approximate=True)
            except (RedisError, OSError) as error:
                log.warning("records_wait", error=str(error), records=len(part) + len(self._waiting))
                self._waiting.extendleft(reversed(part))
                return

    def _next_part(self) -> list[bytes]:
        part, size = [self._waiting.popleft()], 0
        while self._waiting and len(part) < AT_ONCE and (size := size + len(part[-1])) < MESSAGE_BYTES:
            part.append(self._waiting.popleft())
        return part
