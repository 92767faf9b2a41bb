"""Reading a Redis stream, typed."""

from typing import Any, cast

from redis.asyncio import Redis

StreamEntry = tuple[bytes, dict[bytes, bytes]]


async def read_stream(redis: Redis, stream: str, after: bytes, block_ms: int, count: int) -> list[StreamEntry]:
    """Entries that came after ``after``; waits up to ``block_ms`` for the first.

    Raises:
        redis.exceptions.RedisError: Redis does not answer.
    """
    reply = cast("list[Any] | None", await redis.xread({stream: after}, block=block_ms, count=count))
    return [cast("StreamEntry", entry) for _, entries in reply or () for entry in entries]
