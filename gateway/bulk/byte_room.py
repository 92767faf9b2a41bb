"""How much of jobs' files a process holds in memory at once."""

import asyncio
from collections import deque

OPEN_BYTES = 128 * 1024 * 1024


class ByteRoom:
    """Made once a process. Use from one event loop. Whoever comes first is served first, however large."""

    def __init__(self, most: int = OPEN_BYTES) -> None:
        self._most, self._taken = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait until ``size`` bytes more may be held; more than there is room for are held alone."""
        if not self._waiting and self._fits(size):
            self._taken += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size)
            raise

    def give(self, size: int) -> None:
        """They are held no longer."""
        self._taken -= size
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._taken += size
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._most
