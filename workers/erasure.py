"""Erasing what was kept of a tenant: the part of it that is in the store.

``sl:erased:<tenant id>`` is a hash, gateway -> mark of the cache salt that the tenant had when this gateway had
forgotten all that it kept under earlier ones ("gone" for a tenant that was deleted).
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from workers.ready.ready_set import ReadySet

TELL_MS = 3_600_000
LOOK_S = 0.1
_SCAN = 1_000


async def erase_kept(redis: Redis, tenant_id: int) -> int:
    """Remove the kept answers of a tenant, also those for repeated idempotency keys; return how many went.

    The notes of its idempotency keys stay until their time: they hold no answer, and without them a request that was
    answered would run again.

    Raises:
        redis.exceptions.RedisError, OSError: the store does not answer; some may be gone.
    """
    erased = await ReadySet(redis).erase_answers(tenant_id)
    async for note in redis.scan_iter(match=f"sl:idem:{tenant_id}:*", count=_SCAN):
        request_id = await cast("Awaitable[Any]", redis.hget(note, "rid"))
        if request_id is not None:
            erased += int(await redis.delete(b"sl:kept:" + request_id))
    return erased


async def tell_forgotten(redis: Redis, gateway_id: str, tenant_id: int, mark: str) -> None:
    """Say that a gateway keeps nothing from before any more; see the top of this module."""
    name = f"sl:erased:{tenant_id}"
    async with redis.pipeline(transaction=True) as pipe:
        pipe.hset(name, gateway_id, mark)
        pipe.pexpire(name, TELL_MS)
        await pipe.execute()


async def wait_for_gateways(redis: Redis, tenant_id: int, mark: str, wait_s: float) -> tuple[int, int]:
    """Wait until every gateway that lives has forgotten a tenant; return how many have, and how many live."""
    end = time.monotonic() + wait_s
    while True:
        told = await cast("Awaitable[dict[bytes, bytes]]", redis.hgetall(f"sl:erased:{tenant_id}"))
        living = await _living(redis)
        done = sum(told.get(gateway) == mark.encode() for gateway in living)
        if done == len(living) or time.monotonic() > end:
            return done, len(living)
        await asyncio.sleep(LOOK_S)


async def _living(redis: Redis) -> list[bytes]:
    known = sorted(await cast("Awaitable[set[bytes]]", redis.smembers("sl:gateways")))
    alive = [await redis.exists(b"sl:gateway:" + gateway) for gateway in known]
    return [gateway for gateway, lives in zip(known, alive, strict=True) if lives]


async def rewrite_log(redis: Redis, wait_s: float) -> bool:
    """Have the store's append-only file written anew, since the old one tells everything that was; wait for its end.

    Returns:
        True if nothing of before is in the file, or there is none; False if it took too long, failed or may not be
        asked for here.
    """
    end = time.monotonic() + wait_s
    begun = False
    while time.monotonic() < end:
        facts = await redis.info("persistence")
        if not int(facts.get("aof_enabled", 0)):
            return True
        is_running = int(facts["aof_rewrite_in_progress"]) or int(facts["aof_rewrite_scheduled"])
        if not is_running and begun:
            return bool(facts["aof_last_bgrewrite_status"] == "ok")
        if not is_running:  # one that ran already may have begun too early
            try:
                await redis.bgrewriteaof()
            except ResponseError:
                return False
            begun = True
        await asyncio.sleep(LOOK_S)
    return False
