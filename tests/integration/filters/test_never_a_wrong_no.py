"""What exists is never denied, in whatever order things happen. Time is the test's own: hours pass at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from redis.asyncio import Redis
from things import Things, rebuilder

from caching.filters import replica as replicas
from caching.filters.replica import GRACE_MS, STRADDLE_MS, Existence, Replica
from caching.filters.truth import ADD_WITHIN_MS, AnnouncedTooLongAgo, FilterTruth

T = TypeVar("T")
ROOT = "sl:filter:things"
ABSENT = b"never made"


class Stepwise(Things):
    """Is read in two steps: all that is there at the first, then, when told, whatever else the reading finds."""

    def __init__(self, items: list[bytes]) -> None:
        super().__init__()
        self.items = items
        self.begun, self.read, self.go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        self.begun.set()
        await self.read.wait()
        yield list(self.items)
        await self.go.wait()


class World(RuleBasedStateMachine):
    """Makers of things, two processes that look, one that rebuilds, and a store that loses what it has."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.redis = Redis.from_url(self.url)
        self.truth = FilterTruth(self.redis, "things")
        self.now_ms = 2 * 10**12  # ahead of the store's own clock, which therefore stands where the test puts it
        self.replicas = [Replica(self.truth, monotonic_s=lambda: 0.0) for _ in range(2)]
        self.announced: dict[bytes, int] = {}
        self.added: dict[bytes, int] = {}
        self.rows: list[bytes] = []
        self.made: dict[bytes, int] = {}
        self.rebuild: tuple[Stepwise, asyncio.Task[bool]] | None = None
        self.older: dict[bytes, bytes] = {}
        self.wait(self.redis.flushall())
        self.set_time(0)

    def wait(self, work: Awaitable[T]) -> T:
        async def waited() -> T:
            return await work

        return self.runner.run(waited())

    def set_time(self, ms: int) -> None:
        self.now_ms += ms
        self.wait(self.redis.hset(ROOT, "clock", str(self.now_ms)))

    @rule()
    def announce(self) -> None:
        name = b"thing-%d" % (len(self.announced) + len(self.made) + len(self.added))
        self.announced[name] = self.wait(self.truth.now_ms())

    @precondition(lambda self: self.announced)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.announced)))
        made_at_ms = self.announced.pop(name)
        try:
            self.wait(self.truth.add(name, made_at_ms))
        except AnnouncedTooLongAgo:
            return
        self.added[name] = made_at_ms

    @precondition(lambda self: self.added)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.added)))
        made_at_ms = self.added.pop(name)
        if self.now_ms - made_at_ms < STRADDLE_MS:  # a transaction does not take longer
            self.rows.append(name)
            self.made[name] = made_at_ms

    @rule(ms=st.sampled_from([1, ADD_WITHIN_MS, GRACE_MS, GRACE_MS + 1, STRADDLE_MS // 2, STRADDLE_MS]))
    def time_passes(self, ms: int) -> None:
        self.set_time(ms)

    @rule(which=st.integers(0, 1))
    def sync(self, which: int) -> None:
        self.wait(self.replicas[which].sync())

    @rule()
    def begin_rebuild(self) -> None:
        self.drop_rebuild()
        self.wait(self.redis.delete(f"{ROOT}:lease"))  # of one that died
        source = Stepwise(self.rows)

        async def begin() -> asyncio.Task[bool]:
            task = asyncio.create_task(rebuilder(self.truth, source).rebuild())
            await source.begun.wait()
            return task

        self.rebuild = source, self.wait(begin())

    @precondition(lambda self: self.rebuild)
    @rule()
    def read_rows(self) -> None:
        assert self.rebuild

        async def read(source: Stepwise) -> None:
            source.read.set()
            await asyncio.sleep(0)

        self.wait(read(self.rebuild[0]))

    @precondition(lambda self: self.rebuild)
    @rule()
    def end_rebuild(self) -> None:
        assert self.rebuild
        source, task = self.rebuild
        source.read.set()
        source.go.set()
        self.wait(task)
        self.rebuild = None

    @rule()
    def flush(self) -> None:
        self.wait(self.redis.flushall())
        self.set_time(0)

    @rule()
    def remember(self) -> None:
        """What a slow copy of the store has."""
        self.older = self.wait(self.dump())

    @rule()
    def fail_over(self) -> None:
        """The slow copy takes over, as another server: no generation of it began there."""
        self.wait(self.load(self.older))
        self.set_time(0)

    async def dump(self) -> dict[bytes, bytes]:
        return {key: await self.redis.dump(key) async for key in self.redis.scan_iter("*")}  # type: ignore[misc]  # a key that is there

    async def load(self, dump: dict[bytes, bytes]) -> None:
        await self.redis.flushall()
        for key, value in dump.items():
            await self.redis.restore(key, 0, value)
        async for key in self.redis.scan_iter(f"{ROOT}:*"):
            if await self.redis.type(key) == b"hash":
                await self.redis.hset(key, "run", "of another server")

    @invariant()
    def nothing_that_exists_is_denied(self) -> None:
        for replica in self.replicas:
            for name, made_at_ms in self.made.items():
                assert replica.look(name, made_at_ms) is not Existence.NO

    def drop_rebuild(self) -> None:
        if self.rebuild:
            self.rebuild[1].cancel()
            self.rebuild = None

    def teardown(self) -> None:
        async def end() -> None:
            self.drop_rebuild()
            await asyncio.sleep(0)
            await self.redis.aclose()

        self.wait(end())
        self.runner.close()


def test_in_any_order_of_events_nothing_that_exists_is_denied(filter_store_url: str) -> None:
    world = type("World", (World,), {"url": filter_store_url})
    options = settings(max_examples=20, stateful_step_count=40, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(world, settings=options)  # type: ignore[no-untyped-call]


SAID = [(None, Existence.UNKNOWN), (0, Existence.NO)]
"""With the constant as it is; and, to show that it is needed, with none: then what exists is denied."""


@pytest.mark.parametrize(("constant_ms", "said"), SAID)
async def test_a_thing_added_after_the_last_sync_but_announced_before_it(
    truth: FilterTruth, redis: Redis, monkeypatch: pytest.MonkeyPatch, constant_ms: int | None, said: Existence
) -> None:
    monkeypatch.setattr(replicas, "GRACE_MS", GRACE_MS if constant_ms is None else constant_ms)
    await rebuilder(truth, Things()).rebuild()
    await redis.hset(ROOT, "clock", str(await truth.now_ms() + 2 * STRADDLE_MS))
    replica, made_at_ms = Replica(truth), await truth.now_ms()
    await replica.sync()
    await truth.add(b"a", made_at_ms)
    assert replica.look(b"a", made_at_ms) is said


@pytest.mark.parametrize(("constant_ms", "said"), SAID)
async def test_a_thing_added_before_the_generation_whose_row_comes_after_the_reading(
    truth: FilterTruth, redis: Redis, monkeypatch: pytest.MonkeyPatch, constant_ms: int | None, said: Existence
) -> None:
    monkeypatch.setattr(replicas, "STRADDLE_MS", STRADDLE_MS if constant_ms is None else constant_ms)
    made_at_ms = await truth.now_ms()
    await truth.add(b"a", made_at_ms)
    await rebuilder(truth, Things()).rebuild()
    await redis.hset(ROOT, "clock", str(await truth.now_ms() + GRACE_MS + 1))
    replica = Replica(truth)
    await replica.sync()
    assert replica.look(b"a", made_at_ms) is said
