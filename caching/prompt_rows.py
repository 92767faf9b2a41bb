"""Rows of stored prompts in the store, beside the database: what is used again and again is read from here.

``sl:prompt:<id>`` is a hash: ``head`` is ``<tenant id>:<latest version>``, ``v<number>`` what a version says,
compressed. While a prompt is being changed its head is empty and nobody puts anything in, so a row that was read before
a change never comes in after it. Every row ends after ``KEEP_MS``, however often it is read, so whatever is lost on the
way, nothing stays wrong for longer.
"""

import zlib
from collections.abc import Awaitable, Iterable
from typing import Any, NamedTuple, cast

from redis.asyncio import Redis

KEY = "sl:prompt:"
KEEP_MS = 600_000
CHANGING_MS = 30_000
"""Longer than anybody waits for the database, and than a change goes on that nobody waits for any more."""
_FASTEST = 1

_READ = """
local head = redis.call('HGET', KEYS[1], 'head')
if not head or head == '' then return {head} end
local number = ARGV[1] ~= '' and ARGV[1] or string.match(head, ':(%d+)$')
return {head, redis.call('HGET', KEYS[1], 'v' .. number)}
"""
_PUT = """
local head = redis.call('HGET', KEYS[1], 'head')
if head and head ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'head', ARGV[1], 'v' .. ARGV[2], ARGV[3])
if not head then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
"""
_CHANGING = """
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'head', '')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""


class Head(NamedTuple):
    """Whose a prompt is, and its latest version."""

    tenant_id: int
    latest: int


class Row(NamedTuple):
    """What the store has of a prompt: ``text`` is what the version that was asked for says, None if it is not there."""

    head: Head
    text: bytes | None


class PromptRows:
    """The rows.

    Raises (all methods): ``redis.exceptions.RedisError`` or ``OSError`` when the store does not answer.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = redis.register_script(_READ)
        self._put = redis.register_script(_PUT)
        self._changing = redis.register_script(_CHANGING)

    async def head(self, public_id: str) -> Head | None:
        """Whose a prompt is; None if the store does not know, or is not to be believed just now."""
        return _head(await cast("Awaitable[Any]", self._redis.hget(KEY + public_id, "head")))

    async def read(self, public_id: str, number: int | None) -> Row | None:
        """One version, the latest for None; None if the database has to be asked."""
        reply = await self._read(keys=[KEY + public_id], args=["" if number is None else number])
        head = _head(reply[0] if reply else None)
        if head is None:
            return None
        packed = reply[1] if len(reply) > 1 else None
        return Row(head, zlib.decompress(packed) if packed else None)

    async def put(self, public_id: str, head: Head, number: int, text: bytes) -> bool:
        """Put a version in, as it was read from the database; False if the prompt has changed since, or is about to."""
        packed = zlib.compress(text, _FASTEST)
        return bool(await self._put(keys=[KEY + public_id], args=[_text(head), number, packed, KEEP_MS]))

    async def changing(self, public_ids: Iterable[str]) -> None:
        """These are about to change, or just have: for ``CHANGING_MS`` only the database is believed.

        To be called before a change and again after it.
        """
        for public_id in public_ids:
            await self._changing(keys=[KEY + public_id], args=[CHANGING_MS])


def _text(head: Head) -> str:
    return f"{head.tenant_id}:{head.latest}"


def _head(raw: bytes | None) -> Head | None:
    if not raw:
        return None
    tenant_id, _, latest = raw.decode().partition(":")
    return Head(int(tenant_id), int(latest))
