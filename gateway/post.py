"""What one gateway sends to others: events in order, many in one message, bounded while the store is away."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError

from tracing import logs
from workers import wire

log = logs.get(__name__)

MAX_WAITING = 50_000
"""Events that wait for one gateway; further ones are dropped, and whoever misses them notices the hole."""

MESSAGE_BYTES = 1 << 20
"""Frames of one message, about."""

RETRY_S = 0.1
PATIENCE_S = 30.0

Send = Callable[[str, list[wire.Event]], Awaitable[None]]
Letter = Callable[[], wire.Event]
"""Makes an event when it is sent: many of them may share the bytes of one frame until then."""


class Post:
    """Made once a process. Use from one event loop only."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[str, deque[Letter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def give(self, gateway_id: str, letter: Letter) -> None:
        """Send one event after all that were given for this gateway before."""
        waiting = self._waiting.get(gateway_id)
        if waiting is None:
            waiting = self._waiting[gateway_id] = deque()
            task = asyncio.ensure_future(self._deliver(gateway_id, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(waiting) < MAX_WAITING:
            waiting.append(letter)

    async def _deliver(self, gateway_id: str, waiting: deque[Letter]) -> None:
        try:
            while True:
                await asyncio.sleep(0)  # what is given in the same turn of the loop goes with it
                if not waiting:
                    return
                await self._send_again(gateway_id, _next_message(waiting))
        finally:
            del self._waiting[gateway_id]

    async def _send_again(self, gateway_id: str, events: list[wire.Event]) -> None:
        """Send until it has arrived; receivers drop what comes twice."""
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                await self._send(gateway_id, events)
                return
            except (RedisError, OSError) as error:
                if asyncio.get_running_loop().time() > end:
                    log.error("events_dropped", gateway_id=gateway_id, events=len(events), error=str(error))
                    return
                await asyncio.sleep(RETRY_S)


def _next_message(waiting: deque[Letter]) -> list[wire.Event]:
    events: list[wire.Event] = []
    size = 0
    while waiting and size < MESSAGE_BYTES:
        events.append(waiting.popleft()())
        size += len(events[-1][4]) if events[-1][3] == wire.FRAME else 0
    return events
