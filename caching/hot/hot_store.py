"""Hot keys in the store: what processes counted, the list that comes of it, and who makes it.

======================  ======  ==========================================================================
sl:hot:rings            hash    "<gateway>:<window>" -> sketch of a window that is over (sketch_ring.py)
sl:hot:list             hash    body: the list (hot_list.py); version: of the body; asked: counts operators' changes
sl:hot:leader           string  the gateway that makes the list, while its lease lasts
======================  ======  ==========================================================================
"""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import LockError

from caching.hot.hot_list import HotList, unpack

RINGS, LIST, LEADER = "sl:hot:rings", "sl:hot:list", "sl:hot:leader"
ASKED = "asked"
"""Field of :data:`LIST`; whoever changes the list in the database adds 1 to it."""
_BODY, _VERSION = "body", "version"


@dataclass(frozen=True, slots=True)
class Look:
    """How the list stands: the version of its body (empty if there is none) and how often operators asked for anew."""

    version: bytes
    asked: bytes


class HotStore:
    """One gateway's view. Every method raises redis.exceptions.RedisError or OSError if the store does not answer."""

    def __init__(self, redis: Redis, gateway_id: str, lease_s: float) -> None:
        self._redis = redis
        self._gateway_id = gateway_id
        self._lock = Lock(redis, LEADER, timeout=lease_s, blocking=False, thread_local=False)
        self._leads = False

    async def look(self) -> Look:
        """See whether anything has changed."""
        found = await cast("Awaitable[list[bytes | None]]", self._redis.hmget(LIST, [_VERSION, ASKED]))
        return Look(found[0] or b"", found[1] or b"")

    async def read_list(self) -> HotList | None:
        """Fetch the list; None if there is none."""
        body = await cast("Awaitable[Any]", self._redis.hget(LIST, _BODY))
        return None if body is None else unpack(body)

    async def write_list(self, found: HotList) -> None:
        """Publish the list."""
        fields: Mapping[Any, Any] = {_BODY: found.packed, _VERSION: found.version}
        await self._redis.hset(LIST, mapping=fields)

    async def write_windows(self, windows: Mapping[int, bytes], keep_s: float) -> None:
        """Hand in windows that are over; all of them go when nobody has handed in any for so long."""
        if not windows:
            return
        fields: Mapping[Any, Any] = {f"{self._gateway_id}:{number}": packed for number, packed in windows.items()}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(RINGS, mapping=fields)
            pipe.pexpire(RINGS, int(keep_s * 1000))
            await pipe.execute()

    async def window_names(self, since: int) -> list[bytes]:
        """Names of the windows from number ``since`` on, sorted; earlier ones are thrown away."""
        names = await cast("Awaitable[list[bytes]]", self._redis.hkeys(RINGS))
        old = [name for name in names if number_of(name) < since]
        if old:
            await self._redis.hdel(RINGS, *cast("list[str]", old))
        return sorted(set(names) - set(old))

    async def read_windows(self, names: list[bytes]) -> list[tuple[int, bytes]]:
        """Fetch windows; those that are gone are left out."""
        if not names:
            return []
        found = await cast("Awaitable[list[bytes | None]]", self._redis.hmget(RINGS, cast("list[str]", names)))
        return [(number_of(name), packed) for name, packed in zip(names, found, strict=True) if packed is not None]

    async def lead(self) -> bool:
        """Become the one that makes the list, or stay it; False while another one is."""
        if self._leads:
            try:
                await self._lock.reacquire()
                return True
            except LockError:  # the lease was over, or the store forgot it
                self._leads = False
        self._leads = await self._lock.acquire(blocking=False, token=self._gateway_id)
        return self._leads

    async def step_down(self) -> None:
        """Let another one make the list."""
        if self._leads:
            self._leads = False
            with suppress(LockError):  # its lease was over
                await self._lock.release()


def number_of(name: bytes) -> int:
    """The number in a window's name; -1 if there is none."""
    number = name.rpartition(b":")[2]
    return int(number) if number.isdigit() else -1
