"""Orders of gateways and of the sweep to one worker: end this item."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.usage import Usage
from tracing import logs
from workers.ready.item import Ending
from workers.ready.stream import read_stream

log = logs.get(__name__)

RETRY_S = 0.2
MAX_EARLY = 1_000


class Orders:
    """Follows the stream ``sl:ctl:<wid>``.

    ``obey`` is called with a request id and how it is to end; False when nothing of that name runs. Then the order was
    faster than the reply to the claim, and is kept for it, or the item has ended.
    """

    def __init__(self, redis: Redis, worker_id: str, obey: Callable[[str, Ending], bool]) -> None:
        self._redis, self._stream, self._obey = redis, f"sl:ctl:{worker_id}", obey
        self._early: OrderedDict[str, Ending] = OrderedDict()

    def early(self, request_id: str) -> Ending | None:
        """The order that came before its item."""
        return self._early.pop(request_id, None)

    async def follow(self) -> None:
        """Follow for ever."""
        last = b"0"
        while True:
            try:
                orders = await read_stream(self._redis, self._stream, last, block_ms=1000, count=100)
            except (RedisError, OSError) as error:
                log.warning("orders_retry", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            for last, fields in orders:  # noqa: B007 - the last id is where to go on
                self.take(fields)

    def take(self, fields: dict[bytes, bytes]) -> None:
        """Take one order."""
        request_id = fields.get(b"abort", b"").decode()
        if not request_id:
            return
        ending = Ending(fields[b"outcome"].decode(), int(fields[b"status"]), fields[b"code"].decode(), Usage(), None)
        if not self._obey(request_id, ending):
            self._early[request_id] = ending
            if len(self._early) > MAX_EARLY:
                self._early.popitem(last=False)
