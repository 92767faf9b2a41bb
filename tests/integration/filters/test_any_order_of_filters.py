"""In whatever order things are made, stores lose what they had and generations change: what exists is never denied.

Time is the truth's own clock, which the test moves on; rebuilds stop in the middle until the test lets them go on.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from things import rebuilder

from caching.filters.replica import GRACE_MS, STRADDLE_MS, Existence, Replica
from caching.filters.truth import ADD_WITHIN_MS, AnnouncedTooLongAgo, FilterTruth
from gateway.tasks import end_all

T = TypeVar("T")
ROOT = "sl:filter:things"
CLOCKS_DIFFER_MS = GRACE_MS - ADD_WITHIN_MS - 1
EXAMPLES = int(os.environ.get("RANDOM_EXAMPLES", "60"))
PICK = st.integers(0, 100)
HARMS = st.sampled_from((*["a delta lost"] * 4, "lost", "spoilt"))
BEFORE_MADE_MS = st.sampled_from((0, STRADDLE_MS + 1))
BEFORE_SYNC_MS = st.sampled_from((0, ADD_WITHIN_MS - 1, GRACE_MS + 1))


@dataclass(slots=True)
class Source:
    """The rows, read when the test says so."""

    rows: dict[bytes, int]
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def count(self) -> int:
        return len(self.rows)

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        await self.go_on.wait()
        yield list(self.rows)


class Filters(RuleBasedStateMachine):
    """One store, two processes' copies, and things on their way: announced, added, written."""

    url = ""
    denied: ClassVar[list[int]] = [0]

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SyncRedis.from_url(self.url)
        self.store.flushall()
        self.redis = Redis.from_url(self.url)
        self.truth = FilterTruth(self.redis, "things")
        self.now_ms = self._do(self.truth.now_ms())
        self.copies = [Replica(self.truth, lambda: self.now_ms / 1000, lambda: self.now_ms / 1000) for _ in range(2)]
        self.announced: list[tuple[bytes, int]] = []
        self.added: list[tuple[bytes, int]] = []
        self.rows: dict[bytes, int] = {}
        self.made = 0
        self.rebuilding: tuple[asyncio.Task[bool], Source] | None = None
        self.rebuild()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    # --- things -------------------------------------------------------------------------------------------------------

    def _pass(self, ms: int) -> None:
        self.now_ms = self._do(self.truth.now_ms()) + ms
        self.store.hset(ROOT, "clock", self.now_ms)

    @rule()
    def announce(self) -> None:
        self.announced.append((b"thing-%d" % self.made, self._do(self.truth.now_ms())))
        self.made += 1

    @rule(pick=PICK)
    def add(self, pick: int) -> None:
        if self.announced:
            thing = self.announced.pop(pick % len(self.announced))
            with suppress(AnnouncedTooLongAgo):
                self._do(self.truth.add(*thing))
                self.added.append(thing)

    @rule(pick=PICK)
    def write(self, pick: int) -> None:
        if self.added:
            name, made_at_ms = self.added.pop(pick % len(self.added))
            if self._do(self.truth.now_ms()) - made_at_ms < STRADDLE_MS:
                self.rows[name] = made_at_ms

    @rule(before_ms=BEFORE_MADE_MS)
    def make_at_once(self, before_ms: int) -> None:
        self._pass(before_ms)
        self.announce()
        self.add(len(self.announced) - 1)
        self.write(len(self.added) - 1)

    # --- generations --------------------------------------------------------------------------------------------------

    @rule()
    def begin_to_rebuild(self) -> None:
        if self.rebuilding is None:
            source = Source(self.rows)
            task = self.loop.create_task(rebuilder(self.truth, source).rebuild())
            self.rebuilding = task, source
            self._do(asyncio.sleep(0.01))

    @rule()
    def end_the_rebuild(self) -> None:
        if self.rebuilding is not None:
            task, source = self.rebuilding
            self.rebuilding = None
            source.go_on.set()
            self._do(asyncio.shield(task))

    @rule()
    def rebuild(self) -> None:
        self.begin_to_rebuild()
        self.end_the_rebuild()

    # --- what happens to stores ---------------------------------------------------------------------------------------

    @rule(harm=HARMS, pick=PICK)
    def harm_the_store(self, harm: str, pick: int) -> None:
        if harm == "lost":
            # The clock of the next store may be behind.
            self.now_ms = self._do(self.truth.now_ms()) - pick * CLOCKS_DIFFER_MS // 100
            self.store.flushall()
            self.store.hset(ROOT, "clock", self.now_ms)
        elif harm == "a delta lost":
            for log in self.store.keys(f"{ROOT}:*:log"):
                entries = self.store.xrange(log)
                if entries:
                    self.store.xdel(log, entries[-1 - pick % len(entries)][0])
        else:
            for bits in self.store.keys(f"{ROOT}:*:bits"):
                self.store.delete(bits) if pick % 2 else self.store.setrange(bits, 0, b"\xff\x00")

    # --- copies -------------------------------------------------------------------------------------------------------

    @rule(which=st.sampled_from((0, 1, None)), before_ms=BEFORE_SYNC_MS)
    def sync(self, which: int | None, before_ms: int) -> None:
        self._pass(before_ms)
        for copy in self.copies if which is None else [self.copies[which]]:
            self._do(copy.sync())
            self.now_ms = max(self.now_ms, self._do(self.truth.now_ms()))
            self.denied[0] += copy.look(b"absent", 0) is Existence.NO
        for name, made_at_ms in self.rows.items():
            assert self._do(self.truth.was_added(name, made_at_ms)) is not Existence.NO, (name, made_at_ms)

    @invariant()
    def what_exists_is_never_denied(self) -> None:
        for copy in getattr(self, "copies", ()):
            for name, made_at_ms in self.rows.items():
                assert copy.look(name, made_at_ms) is not Existence.NO, (name, made_at_ms)

    def teardown(self) -> None:
        if not hasattr(self, "copies"):
            return
        if self.rebuilding is not None:
            self._do(end_all([self.rebuilding[0]]))
        self._do(self.redis.aclose())
        self.store.close()
        self.loop.close()


def test_what_exists_is_never_denied(filter_store_url: str) -> None:
    Filters.url, Filters.denied[0] = filter_store_url, 0
    run_state_machine_as_test(
        Filters, settings=settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None, print_blob=True)
    )
    assert Filters.denied[0], "a filter that never says no proves nothing"
