"""The whitelist in one gateway process: counts what is asked for, and knows what is hot, pinned and banned.

Looking is one membership test in a frozen set. Counts go to the store once a window; one gateway makes the list of all
(:mod:`gateway.hot_leader`), and every process fetches it when it has changed. While the store or the database is away,
each goes on with what it has. The list says what is kept and refreshed; it never says who may read anything.
"""

import asyncio
import time
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from caching.hot.hot_list import HotList
from caching.hot.hot_store import HotStore
from caching.hot.sketch_ring import WINDOW_S, WINDOWS, SketchRing
from domain.config import Config
from gateway.database import Database
from gateway.hot_leader import HotLeader
from gateway.tasks import end_all
from tracing import logs, metrics

log = logs.get(__name__)

LOOK_S = 1.0
LEASE_S = 6.0

Listener = Callable[[frozenset[bytes]], None]


class HotKeys:
    """Made once a process; everything but :meth:`start` and :meth:`stop` returns at once.

    Attributes:
        listed: the list in force.
        trouble: why it was not compared with the store at the latest look; "" if it was.
    """

    def __init__(
        self, config: Config, gateway_id: str, database: Database, clock: Callable[[], float] = time.time
    ) -> None:
        """Know nothing yet.

        Args:
            config: says how many keys are hot.
            gateway_id: unique among the living.
            database: holds what operators have set.
            clock: seconds since 1970; windows are numbered by it.
        """
        self.listed = HotList()
        self._config = config
        self._gateway_id = gateway_id
        self._database = database
        self._clock = clock
        self._ring = SketchRing()
        self._listeners: list[Listener] = []
        self._version = b""
        self._seen_at = time.monotonic()
        self._told = (0, 0)
        self.trouble = ""
        self._task: asyncio.Task[None] | None = None

    def count(self, kind: str, key: bytes, tenant_id: int, model: str) -> None:
        """Count a request for a key.

        Args:
            kind: "answer" for the key of a kept answer, "prompt" for the id of a stored prompt.
            key: 16 bytes, or the id's text.
            tenant_id: whose request.
            model: that it asked for.
        """
        self._ring.count(kind, key, tenant_id, model)

    def is_hot(self, key: bytes) -> bool:
        """Whether a key is on the whitelist: found by counting or pinned, and not banned."""
        return key in self.listed.kept

    def is_pinned(self, key: bytes) -> bool:
        """Whether operators have pinned it, and not banned it."""
        return key in self.listed.pinned and key not in self.listed.banned

    def is_banned(self, key: bytes) -> bool:
        """Whether operators have banned it: its answers are neither kept nor given."""
        return key in self.listed.banned

    def tell(self, listener: Listener) -> None:
        """Call ``listener`` with the whitelisted keys, now and whenever they change."""
        self._listeners.append(listener)
        listener(self.listed.kept)

    def connect(self, redis: Redis) -> None:
        """Say where the store is; ``redis`` belongs to the caller."""
        self._store = HotStore(redis, self._gateway_id, LEASE_S)
        self._leader = HotLeader(self._store, self._database, self._config.hot_keys)

    def start(self, redis: Redis) -> None:
        """Fetch the list, if there is one, and keep it fresh from now on."""
        self.connect(redis)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop looking; another gateway makes the list from now on."""
        if self._task is not None:
            await end_all([self._task])
        self._ring.close()
        try:
            await self._store.step_down()
        except (RedisError, OSError) as error:
            log.info("hot_keys_lease_kept", error=str(error))

    async def look(self) -> None:
        """Do what there is to do now: hand counts in, make the list if it is this gateway's turn, fetch it."""
        now_s = self._clock()
        self._ring.roll(now_s)
        try:
            closed = self._ring.closed()
            await self._store.write_windows(closed, WINDOWS * WINDOW_S)
            self._ring.forget(closed)
            seen = await self._store.look()
            if await self._store.lead():
                seen = await self._leader.work(now_s, seen, self.listed)
            if seen.version and seen.version != self._version:
                await self._take(seen.version)
        except Exception as error:
            # Whatever it was, this goes on: a list that is never looked at again would keep bans and pins for ever.
            self._report(error)
        else:
            self._seen_at, self.trouble = time.monotonic(), ""
        self._tell_metrics()

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def _take(self, version: bytes) -> None:
        found = await self._store.read_list()
        if found is None:
            return
        self._version = version
        before, self.listed = self.listed.kept, found
        if found.kept != before:
            for listener in self._listeners:
                listener(found.kept)

    def _report(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if not self.trouble:  # once an outage, not every second
            log.warning("hot_keys_stale", error=text)
        self.trouble = text

    def _tell_metrics(self) -> None:
        counted, refused = self._told
        self._told = (self._ring.counted, self._ring.over_quota)
        metrics.hot_counted.labels("counted").inc(self._told[0] - counted)
        metrics.hot_counted.labels("over_quota").inc(self._told[1] - refused)
        for state in ("hot", "pinned", "banned"):
            metrics.hot_keys.labels(state).set(len(getattr(self.listed, state)))
        metrics.hot_age.set(time.monotonic() - self._seen_at)
