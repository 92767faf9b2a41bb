"""Keeps a model's rule in Redis for the gateways, and puts it back if the store has lost it."""

import asyncio

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tracing import logs
from workers.tokenization.rule import KEY, Tokenization

log = logs.get(__name__)

RENEW_S = 5.0
KEPT_S = 86_400


class Publisher:
    """Publishes one rule for as long as its worker lives."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._key = ""
        self._packed = b""

    async def begin(self, rule: Tokenization) -> str:
        """Publish the rule; returns its digest. A store that is away gets it later."""
        digest, self._packed = await asyncio.to_thread(rule.pack)
        self._key = KEY + digest
        await self._renew()
        return digest

    async def keep(self) -> None:
        """Renew it until cancelled."""
        while True:
            await asyncio.sleep(RENEW_S)
            await self._renew()

    async def _renew(self) -> None:
        try:
            if not await self._redis.expire(self._key, KEPT_S):
                await self._redis.set(self._key, self._packed, ex=KEPT_S)
        except (RedisError, OSError) as error:
            log.warning("rule_not_published", error=str(error))
