"""The last good answer, for when computing a new one fails: kept on this machine's disk, given as stale."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from caching.entry import Entry
from caching.shadow import Shadow
from domain.config import Config
from domain.rate import Rate
from domain.stale import is_recent
from tenants.salt import salt_mark
from tenants.snapshot import Snapshot
from tracing import metrics

T = TypeVar("T")

DIRECTORY = "shadow"
"""Under the data directory; all gateway processes of a machine share it."""

MAX_WRITES = 256
"""Answers that wait to be written; further ones are not kept."""

MAX_READS = 256
"""Look-ups that wait; further ones find nothing."""

UNCHECKED_PER_S = 10.0
"""Stale answers a second that one gateway gives to one tenant while the store is away, so that no limit is checked."""


class Keeper(Protocol):
    """Who knows the tenants."""

    current: Snapshot


class Stale:
    """Keeps last good answers and finds them again. Made once a process; nothing here ever raises.

    Answers are bound to their tenant's cache salt of the time. When it changes (``tenants/erase.py``), when the tenant
    is deleted, or when its plan keeps none any more, they are not found, and are removed at the next sweep.
    """

    def __init__(self, config: Config, keeper: Keeper) -> None:
        size = config.shadow_mib << 20
        self._shadow = Shadow(config.data_dir.expanduser() / DIRECTORY, size) if size else None
        self._keeper = keeper
        self._unchecked = Rate(UNCHECKED_PER_S)
        self._writing = _Queue("shadow-write", MAX_WRITES)
        self._reading = _Queue("shadow-read", MAX_READS)

    async def start(self) -> None:
        """Forget what was erased while nobody here looked."""
        await self.sweep()

    async def stop(self) -> None:
        """Write what waits, then let the disk go."""
        await asyncio.to_thread(self._writing.stop)
        await asyncio.to_thread(self._reading.stop)
        if self._shadow is not None:
            self._shadow.close()

    async def keep(self, key: bytes, entry: Entry, tenant_id: int, max_stale_s: int) -> None:
        """Keep a good answer for ``max_stale_s``, if its plan lets it be kept; returns before it is written."""
        tag = self._tag_of(tenant_id)
        if self._shadow is None or tag is None or max_stale_s <= 0:
            return
        written = self._writing.run(partial(self._shadow.put, key, entry, tag, max_stale_s))
        if written is None:
            metrics.shadow.labels("dropped").inc()
            return
        written.add_done_callback(lambda done: metrics.shadow.labels("kept" if _of(done) else "failed").inc())

    async def find(self, key: bytes, max_stale_s: int) -> Entry | None:
        """The last good answer if it is not older; None if there is none, or if the disk has too much to do."""
        if self._shadow is None or max_stale_s <= 0:
            return None
        reading = self._reading.run(partial(self._shadow.get, key))
        found = None if reading is None else await reading
        entry = found[0] if found and found[1] == self._tag_of(found[0].tenant_id) else None
        if entry is None or not is_recent(int(time.time() * 1000) - entry.stored_at_ms, max_stale_s):
            metrics.shadow.labels("missing").inc()
            return None
        metrics.shadow.labels("found").inc()
        return entry

    def may_give_unchecked(self, tenant_id: int) -> bool:
        """Whether one more stale answer may be given while limits cannot be checked; counts it."""
        return self._unchecked.take(tenant_id, time.monotonic())

    async def erase(self, tenant_id: int) -> int:
        """Remove everything of a tenant from this machine's disk; return how many answers went."""
        return await self._remove(lambda tag: not tag.startswith(f"{tenant_id}:"))

    async def sweep(self) -> int:
        """Remove everything that no tenant has a right to any more; return how many answers went."""
        known = self._keeper.current
        return await self._remove(lambda tag: tag == tag_of(known, int(tag.partition(":")[0])))

    async def _remove(self, stays: Callable[[str], bool]) -> int:
        if self._shadow is None:
            return 0
        removing = self._writing.run(partial(self._shadow.sweep, stays), always=True)
        removed = 0 if removing is None else await removing
        metrics.shadow.labels("erased").inc(removed)
        return removed

    def _tag_of(self, tenant_id: int) -> str | None:
        return tag_of(self._keeper.current, tenant_id)


def tag_of(known: Snapshot, tenant_id: int) -> str | None:
    """What marks a tenant's answers: its id, and what tells its cache salt from others; None if none are kept."""
    tenant = known.tenants.get(tenant_id)
    plan = known.plans.get(tenant.plan_id) if tenant else None
    if tenant is None or plan is None or plan.caching.mode == "off" or plan.caching.max_stale_s <= 0:
        return None
    return f"{tenant_id}:{salt_mark(tenant.cache_salt)}"


class _Queue:
    """One thread, and a bound on what waits for it."""

    def __init__(self, name: str, most: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._most, self._waiting = most, 0

    def run(self, work: Callable[[], T], always: bool = False) -> "asyncio.Future[T] | None":
        """Have ``work`` done; None if too much waits, or if it was stopped."""
        if self._waiting >= self._most and not always:
            return None
        try:
            done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError:  # after stop()
            return None
        self._waiting += 1
        done.add_done_callback(self._one_less)
        return done

    def stop(self) -> None:
        """Do what waits, and end."""
        self._thread.shutdown()

    def _one_less(self, _: "asyncio.Future[Any]") -> None:
        self._waiting -= 1


def _of(done: "asyncio.Future[bool]") -> bool:
    return not done.cancelled() and done.result()
