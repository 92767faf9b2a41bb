"""Seeding: what the store does not know of a day or month, because it began anew, is read from the database.

A store that comes back empty has forgotten what its tenants used. Until it knows again, their limits of days and months
let nobody in.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from django.db import DatabaseError, InterfaceError, connections
from redis.exceptions import RedisError

from domain.limits import Level
from tenants.spent import adjusted, spent
from tracing import logs
from workers.ready.item import NewItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Gap, Unknown

log = logs.get(__name__)

THREADS = 2
UNSETTLED_S = 0.1

Used = tuple[int, int, int, int, int]


class Seeder:
    """Fills gaps, each once however many requests meet it."""

    def __init__(self, ready: ReadySet) -> None:
        self._ready = ready
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="seeder")
        self._under_way: dict[tuple[int, Gap], asyncio.Task[None]] = {}

    def stop(self) -> None:
        """Take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def fill(self, item: NewItem, unknown: Unknown) -> None:
        """Fill the gaps that an item met, or wait a moment for what is on its way to the database.

        Raises:
            django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
            redis.exceptions.RedisError: the store does not answer.
        """
        if unknown.unsettled:
            await asyncio.sleep(UNSETTLED_S)
            return
        await asyncio.gather(*(self._once(_owner(item, gap), gap) for gap in unknown.gaps))

    async def fill_later(self, item: NewItem, unknown: Unknown) -> None:
        """The same where nothing depends on it; the next request tries again what fails."""
        try:
            await self.fill(item, unknown)
        except (DatabaseError, InterfaceError, RedisError, OSError) as error:
            log.warning("seeding_failed", tenant=item.tenant, error=str(error))

    async def _once(self, owner_id: int, gap: Gap) -> None:
        name = (owner_id, gap)
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._fill(owner_id, gap))
            task.add_done_callback(lambda done: self._done(name, done))
        await asyncio.shield(task)

    def _done(self, name: tuple[int, Gap], task: "asyncio.Task[None]") -> None:
        del self._under_way[name]
        if not task.cancelled():
            task.exception()  # looked at, also when nobody waits any more

    async def _fill(self, owner_id: int, gap: Gap) -> None:
        used = await asyncio.get_running_loop().run_in_executor(self._threads, used_before, owner_id, gap)
        await self._ready.seed(owner_id, gap, used)


def used_before(owner_id: int, gap: Gap) -> Used:
    """What the database knows of a period before the store began to count, as :meth:`ReadySet.seed` takes it.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer; the next call connects anew.
    """
    start, end = bounds(gap.period)
    try:
        found = spent(gap.level, owner_id, start, end, datetime.fromtimestamp(gap.since_ms / 1000, UTC))
        with_adjustments = gap.level is Level.TENANT and gap.period.startswith("m")
        cost_nano, tokens = adjusted(owner_id, start.date()) if with_adjustments else (0, 0)
    except (DatabaseError, InterfaceError):
        connections.close_all()
        raise
    return found.requests, found.input_tokens, found.output_tokens, found.cost_nano + cost_nano, tokens


def bounds(period: str) -> tuple[datetime, datetime]:
    """First moment of a period such as ``d20261130`` or ``m202611``, and of the next one."""
    if period.startswith("d"):
        start = datetime.strptime(period, "d%Y%m%d").replace(tzinfo=UTC)
        return start, start + timedelta(days=1)
    start = datetime.strptime(period, "m%Y%m").replace(tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _owner(item: NewItem, gap: Gap) -> int:
    return item.tenant_id if gap.level is Level.TENANT else item.key_id
