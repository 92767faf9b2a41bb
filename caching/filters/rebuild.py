"""Makes a new generation from all that exists; one process at a time, and each step is small."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from blake3 import blake3

from caching.filters import bloom
from caching.filters.bloom import Bloom
from caching.filters.digest import Digester
from caching.filters.truth import PIECE_BYTES, FilterTruth
from domain.filter_size import grown, size_for

LEASE_MS = 10_000
"""A rebuilder that is silent for longer lost its turn."""


class Source(Protocol):
    """Where all items are."""

    async def count(self) -> int:
        """How many there are, roughly."""

    def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        """All that are there from the first step to the last, in pieces; of those made or removed meanwhile, any."""


class Rebuilder:
    """Makes generations of one filter.

    Args:
        truth: where they go.
        source: what exists.
        library: what filters are made of.
        keys: for how many one is made at least.
        false_positives: share of absent items that a full one lets through.
    """

    def __init__(self, truth: FilterTruth, source: Source, library: str, keys: int, false_positives: float) -> None:
        self._truth, self._source = truth, source
        self._library, self._keys, self._false_positives = library, keys, false_positives

    async def rebuild(self) -> bool:
        """Make a generation the current one; False if another process is at it.

        Raises:
            RedisError, OSError: the store does not answer.
            Exception: what the source raises.
        """
        # The form before the turn: nobody waits while it is made.
        keys = grown(self._keys, await self._source.count())
        made = bloom.make(self._library, size_for(keys, self._false_positives))
        owner, generation = secrets.token_hex(8), secrets.token_hex(8)
        if not await self._truth.begin(owner, LEASE_MS, generation, self._library, made.size):
            return False
        try:
            return await self._fill(owner, generation, made)
        except BaseException:
            await self._truth.give_up(owner)
            raise

    async def _fill(self, owner: str, generation: str, made: Bloom) -> bool:
        items = 0
        async for piece in self._source.every_item():
            await asyncio.to_thread(_add, made, self._truth.digest, piece)
            items += len(piece)
            if not await self._truth.fill(owner, LEASE_MS, generation):
                return False
        packed, check = await asyncio.to_thread(_pack, made)
        for offset in range(0, len(packed), PIECE_BYTES):
            if not await self._truth.fill(owner, LEASE_MS, generation, offset, packed[offset : offset + PIECE_BYTES]):
                return False
        return await self._truth.complete(owner, generation, items, len(packed), check)


def _add(made: Bloom, digest: Digester, items: Sequence[bytes]) -> None:
    made.add(map(digest, items))


def _pack(made: Bloom) -> tuple[bytes, str]:
    packed = made.to_bytes()
    return packed, checksum(packed)


def checksum(packed: bytes) -> str:
    """By which a replica knows that it got all of a packed filter."""
    return blake3(packed).hexdigest()
