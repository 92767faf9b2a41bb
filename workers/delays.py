"""Delays that a test asks for, as this process knows them; only where the engine is the simulator."""

from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.config import Config
from domain.simulation.delays import Delay, delay_s, parse_delays
from tracing import logs

log = logs.get(__name__)

KEY = "sl:sim:delays"


class Delays:
    """Made once a process."""

    def __init__(self, config: Config) -> None:
        self._on = config.engine == "simulator"
        self._delays: tuple[Delay, ...] = ()

    def seconds(self, place: str, *whose: str) -> float:
        """How long to wait at ``place``; 0 nearly always. ``whose``: the tenant or worker that waits."""
        return delay_s(self._delays, place, *whose) if self._delays else 0.0

    async def follow(self, redis: Redis) -> None:
        """Read what is asked for now."""
        if not self._on:
            return
        try:
            found = cast("bytes | None", await redis.get(KEY))
            self._delays = parse_delays(found.decode()) if found else ()
        except (RedisError, OSError, ValueError) as error:
            log.warning("delays_not_read", error=str(error))
