"""What one gateway process keeps of answers, run in a thread of its own beside a test."""

import asyncio
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis

from caching.entry import Entry
from caching.local import LocalCache
from domain.config import Config
from domain.eviction.named import make_policy
from gateway.erased import Erased
from gateway.stale import Stale
from gateway.tasks import end_all
from tenants.snapshot import SnapshotKeeper
from workers.erasure import erase_kept, tell_forgotten
from workers.ready.ready_set import ReadySet

NAME = "gateway-0"
DAY_S = 86_400


class OneGateway:
    """Keeps answers on all levels and follows erasures; a context manager.

    Attributes:
        local: its first level.
    """

    def __init__(self, store_url: str, data_dir: Path) -> None:
        self._url = store_url
        self._keeper = SnapshotKeeper(20)
        self._stale = Stale(Config(data_dir=data_dir), self._keeper)
        self.local = LocalCache(1 << 20, make_policy("lru"), time.monotonic)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: Any) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def keep(self, key: bytes, entry: Entry) -> None:
        """Keep an answer as after a request: here, in the store and on the disk."""
        self._do(self._keep(key, entry))

    def on_disk(self, key: bytes) -> Entry | None:
        """What the disk has."""
        return self._do(self._stale.find(key, DAY_S))

    async def _start(self) -> None:
        self._redis = Redis.from_url(self._url)
        self._ready = ReadySet(self._redis)
        await self._ready.gateway_beat(NAME, 60_000)
        await self._keeper.start()
        await self._stale.start()
        forget = (self._stale.erase, self._drop, partial(erase_kept, self._redis))
        erased = Erased(self._keeper, 1000, forget, partial(tell_forgotten, self._redis, NAME))
        self._following = asyncio.create_task(erased.run())

    async def _stop(self) -> None:
        await end_all([self._following])
        await self._stale.stop()
        await self._keeper.stop()
        await self._redis.aclose()

    async def _keep(self, key: bytes, entry: Entry) -> None:
        self.local.put(key, entry, DAY_S)
        await self._stale.keep(key, entry, entry.tenant_id, DAY_S)
        await self._ready.store_answer(key.hex(), entry.pack(), entry.tenant_id, 1000 * DAY_S, 1 << 20)
        await self._stale.sweep()  # by the same thread as what is kept: it is on the disk now

    async def _drop(self, tenant_id: int) -> int:
        return self.local.drop_tenant(tenant_id)

    def _do(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(30)
