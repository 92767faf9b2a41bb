"""Things that exist or do not, and what makes filters of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from caching.filters.rebuild import Rebuilder, Source
from caching.filters.replica import STRADDLE_MS, Replica
from caching.filters.truth import FilterTruth

KEYS, FALSE_POSITIVES = 1_000, 1e-9


class Things:
    """A database of things, read in pieces of ``chunk``."""

    def __init__(self, items: Iterable[bytes] = (), chunk: int = 100) -> None:
        self.items = list(items)
        self.chunk = chunk
        self.readings = 0

    async def count(self) -> int:
        return len(self.items)

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        self.readings += 1
        for at in range(0, len(self.items), self.chunk):
            await asyncio.sleep(0)
            yield self.items[at : at + self.chunk]


def named(number: int, start: int = 0) -> list[bytes]:
    """So many things' names."""
    return [b"thing-%d" % index for index in range(start, start + number)]


def rebuilder(truth: FilterTruth, things: Source, keys: int = KEYS, library: str = "rbloom") -> Rebuilder:
    return Rebuilder(truth, things, library, keys, FALSE_POSITIVES)


async def add(truth: FilterTruth, *items: bytes) -> int:
    """Announce and add things; returns when the last was announced."""
    made_at_ms = 0
    for item in items:
        made_at_ms = await truth.now_ms()
        await truth.add(item, made_at_ms)
    return made_at_ms


async def synced(truth: FilterTruth) -> Replica:
    """A replica that knows what the store knows."""
    replica = Replica(truth)
    await replica.sync()
    return replica


def long_before(replica: Replica) -> int:
    """A time of which the replica knows everything."""
    assert replica.generation is not None
    return replica.generation.begun_ms - STRADDLE_MS
