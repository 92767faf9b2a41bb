"""The way back: frames and endings leave in order, everything of one engine step in one round trip.

Frames that arrive while a round trip is under way gather for the next one, so that a busy engine costs few messages
and an idle one no waiting.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from redis.exceptions import RedisError

from tracing import logs
from workers import wire
from workers.ready.item import ClaimedItem, Ending
from workers.ready.ready_set import ReadySet

log = logs.get(__name__)

# A gateway that lags by more frames than this has lost the stream; it notices by the sequence numbers.
MAX_BACKLOG = 200_000
RETRY_S = 0.1


class Outbox:
    """Sends what engines produce. Use from one event loop only."""

    def __init__(self, ready: ReadySet, worker_id: str, rooms: Callable[[], str]) -> None:
        self._ready = ready
        self._worker_id = worker_id
        self._rooms = rooms
        self._frames: dict[str, list[wire.Event]] = defaultdict(list)
        self._endings: list[tuple[ClaimedItem, Ending, str, bytes]] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def frame(self, gateway_id: str, event: wire.Event) -> None:
        """Send one frame."""
        self._frames[gateway_id].append(event)
        self._stir()

    def finish(self, item: ClaimedItem, ending: Ending, version: str, event: wire.Event) -> None:
        """End an item: after its frames, at once with its settlement."""
        self._endings.append((item, ending, version, wire.pack([event])))
        self._stir()

    async def flushed(self) -> None:
        """Wait until all that was given has left."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send for ever; what could not be sent is sent again (the receivers drop doubles)."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            frames, self._frames = self._frames, defaultdict(list)
            endings, self._endings = self._endings, []
            await self._deliver(frames, endings)
            if not self._wake.is_set():
                self._idle.set()

    def _stir(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def _deliver(
        self, frames: dict[str, list[wire.Event]], endings: list[tuple[ClaimedItem, Ending, str, bytes]]
    ) -> None:
        while True:
            try:
                await self._send(frames, endings)
                return
            except (RedisError, OSError) as error:
                log.warning("outbox_retry", error=str(error), frames=sum(map(len, frames.values())))
                await asyncio.sleep(RETRY_S)
                await self._reload()

    async def _send(
        self, frames: dict[str, list[wire.Event]], endings: list[tuple[ClaimedItem, Ending, str, bytes]]
    ) -> None:
        pipeline = self._ready.redis.pipeline(transaction=False)
        for gateway_id, events in frames.items():
            pipeline.xadd(
                f"sl:out:{gateway_id}", {"m": wire.pack(events)}, maxlen=MAX_BACKLOG, approximate=True, nomkstream=True
            )
        for item, ending, version, event in endings:
            ids = (item.request_id, self._worker_id, item.attempt)
            self._ready.queue_finish(pipeline, ids, ending, version, event, (item.model, self._rooms()))
        await pipeline.execute()

    async def _reload(self) -> None:
        try:
            await self._ready.load()
        except (RedisError, OSError):
            return
