"""Whatever happens in whatever order: every admitted request is settled once, and nothing is left."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.outcome import RollbackCause
from domain.qos import QosClass
from domain.usage import Usage
from tests.integration.ready import seeking, world
from tests.integration.ready.conftest import ITEM
from workers.ready.item import Affinity, Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Hit

T = TypeVar("T")
WORKERS, GATEWAYS = ("w1", "w2"), ("g1", "g2")
AFFINITY = Affinity(4096, 2, dict.fromkeys(QosClass, 60_000))


class Life(RuleBasedStateMachine):
    """Two gateways, two workers, one tenant with limits; anybody may die at any time."""

    url = ""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SyncRedis.from_url(self.url)
        self.store.flushall()
        self.ready = ReadySet(Redis.from_url(self.url))
        self.do(self.ready.load())
        self.admitted: set[str] = set()
        self.keys: dict[str, list[str]] = {}
        self.held: list[tuple[str, str, int]] = []
        self.count = 0
        for gateway_id in GATEWAYS:
            self.do(self.ready.gateway_beat(gateway_id, 60_000))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @rule(
        gateway=st.sampled_from(GATEWAYS),
        qos_class=st.sampled_from(QosClass),
        wide=st.booleans(),
        prefix=st.sampled_from((b"", b"a" * 16, b"a" * 8 + b"b" * 8)),
        key=st.sampled_from(("", "a", "b")),
        answer=st.sampled_from(("", "x", "x", "y")),
        reads=st.booleans(),
    )
    def admit(
        self, gateway: str, qos_class: QosClass, wide: bool, prefix: bytes, key: str, answer: str, reads: bool
    ) -> None:
        self.count += 1
        item = dataclasses.replace(
            ITEM,
            request_id=f"r{self.count}",
            gateway_id=gateway,
            qos_class=qos_class,
            sequences=3 if wide else 1,
            prefix=prefix,
            note=Note(f"1:{key}", "same body", ttl_ms=600_000, keep_ms=0) if key else None,
            sought=seeking.seeking(key=answer, flight=answer, reads=reads) if answer else None,
            limits=world.limits(requests_per_minute=10_000, tokens_per_minute=100_000, max_concurrent=6),
        )
        if isinstance(self.do(self.ready.admit(item)), Admitted | Hit):
            self.admitted.add(item.request_id)
            self.keys.setdefault(key, []).append(item.request_id)

    @rule(worker=st.sampled_from(WORKERS), free=st.integers(0, 4))
    def beat(self, worker: str, free: int) -> None:
        if world.beat(self.store, worker, free, first=False) == -1:
            self.held = [one for one in self.held if one[1] != worker]
            world.beat(self.store, worker, free, first=True)

    @rule(worker=st.sampled_from(WORKERS), free=st.integers(1, 4), idle=st.booleans(), affine=st.booleans())
    def claim(self, worker: str, free: int, idle: bool, affine: bool) -> None:
        affinity = AFFINITY if affine else None
        claim = self.do(self.ready.claim(worker, "m", "b", world.room(free, idle=idle), affinity))
        if claim:
            self.held += [(one.request_id, worker, one.attempt) for one in claim.items]

    @rule(pick=st.integers(0, 100))
    def finish(self, pick: int) -> None:
        if self.held:
            request_id, worker, attempt = self.held[pick % len(self.held)]
            self.do(world.finish(self.ready, request_id, worker, attempt))

    @rule(pick=st.integers(0, 100), cause=st.sampled_from(RollbackCause), forgive=st.booleans())
    def lose(self, pick: int, cause: RollbackCause, forgive: bool) -> None:
        if self.held:
            request_id, worker, attempt = self.held[pick % len(self.held)]
            self.do(self.ready.lose(request_id, worker, attempt, cause.value, forgive=forgive))

    @rule(pick=st.integers(0, 100), tokens=st.integers(0, 50))
    def progress(self, pick: int, tokens: int) -> None:
        if self.held:
            request_id, worker, _ = self.held[pick % len(self.held)]
            pipeline = self.ready.redis.pipeline(transaction=False)
            self.ready.queue_progress(pipeline, worker, {request_id: tokens})
            self.do(pipeline.execute())

    @rule(pick=st.integers(0, 100))
    def acquit(self, pick: int) -> None:
        if self.held:
            self.do(self.ready.acquit(*self.held[pick % len(self.held)]))

    @rule(
        what=st.sampled_from(["worker:w1", "queue:m:p0", "queue:m:p1", "queue:m:p2"]),
        state=st.sampled_from(["paused", "draining", None]),
    )
    def switch(self, what: str, state: str | None) -> None:
        if state is None:
            self.store.hdel("sl:switch", what)
        else:
            self.store.hset("sl:switch", what, state)

    @rule(pick=st.integers(0, 100), attempt=st.integers(1, 3), gateway=st.sampled_from(GATEWAYS), started=st.booleans())
    def requeue(self, pick: int, attempt: int, gateway: str, started: bool) -> None:
        if self.count:
            request_id, so_far = f"r{pick % self.count + 1}", ("so far", 2) if started else ("", 0)
            if self.do(self.ready.requeue(request_id, gateway, attempt, *so_far)) in ("spent", "guilty"):
                self.do(self.ready.cancel(request_id, "failed", 502, "engine_failed", Usage()))

    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        if self.count:
            self.do(self.ready.cancel(f"r{pick % self.count + 1}", "cancelled", 499, "client_closed", Usage()))

    @rule(pick=st.integers(0, 100))
    def end_following(self, pick: int) -> None:
        if self.count:
            request_id = f"r{pick % self.count + 1}"
            self.do(self.ready.end_following(request_id, *world.COMPLETED, seeking.USED, seeking.VERSION))

    @rule(pick=st.integers(0, 100), attempt=st.integers(0, 2), gateway=st.sampled_from(GATEWAYS))
    def unfollow(self, pick: int, attempt: int, gateway: str) -> None:
        if self.count:
            self.do(self.ready.unfollow(f"r{pick % self.count + 1}", gateway, attempt))

    @rule(answer=st.sampled_from(("x", "y")), ttl_ms=st.sampled_from((0, 1, 60_000)))
    def keep_answer(self, answer: str, ttl_ms: int) -> None:
        self.do(seeking.keep(self.ready, answer, ttl_ms=ttl_ms))

    @rule(answer=st.sampled_from(("x", "y")))
    def drop_answer(self, answer: str) -> None:
        self.do(self.ready.drop_answer(answer))

    @rule(who=st.sampled_from([f"sl:worker:{w}" for w in WORKERS] + [f"sl:gateway:{g}" for g in GATEWAYS]))
    def die(self, who: str) -> None:
        world.kill(self.store, who)

    @rule()
    def sweep(self) -> None:
        world.sweep(self.store)

    @rule(gateway=st.sampled_from(GATEWAYS))
    def revive_gateway(self, gateway: str) -> None:
        self.do(self.ready.gateway_beat(gateway, 60_000))

    @invariant()
    def flights_and_followers_agree(self) -> None:
        """Each flight is led by a request that lives and follows none; a leader that lives knows all its followers."""
        if not hasattr(self, "store"):
            return
        names, flights = sorted(self.admitted), ("x", "y")
        with self.store.pipeline() as pipeline:
            for flight in flights:
                pipeline.get(f"sl:flight:{flight}")
            for name in names:
                pipeline.hmget(f"sl:item:{name}", "state", "follows")
                pipeline.smembers(f"sl:followers:{name}")
            found = pipeline.execute()
        items = dict(zip(names, found[len(flights) :: 2], strict=True))
        followers = dict(zip(names, found[len(flights) + 1 :: 2], strict=True))
        for leader in filter(None, found[: len(flights)]):
            assert items[leader.decode()][0] not in (None, b"following")
        for name, (state, leader) in items.items():
            if state == b"following" and items[leader.decode()][0]:
                assert name.encode() in followers[leader.decode()]

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for who in (*WORKERS, *GATEWAYS):
            world.kill(self.store, f"sl:worker:{who}")
            world.kill(self.store, f"sl:gateway:{who}")
        for _ in range(4):
            world.sweep(self.store)
        counts = Counter(one["rid"] for one in world.settlements(self.store))
        assert set(counts) == self.admitted
        assert all(count == 1 for count in counts.values())
        assert world.leftovers(self.store) == []
        seeking.check_indexes(self.store)
        self.check_keys()
        level = self.store.hget("sl:rate:t:1", "t")
        assert level is None or float(level) <= 100_000
        self.do(self.ready.redis.aclose())
        self.store.close()
        self.loop.close()

    def check_keys(self) -> None:
        """A key has one answer at most, and remembers that one alone."""
        completed = {one["rid"] for one in world.settlements(self.store) if one["outcome"] == "completed"}
        for key in ("a", "b"):
            answers = [request_id for request_id in self.keys.get(key, ()) if request_id in completed]
            note = self.store.hmget(f"sl:idem:1:{key}", "rid", "state")
            assert note == ([answers[0].encode(), b"done"] if answers else [None, None])
            assert len(answers) <= 1


def test_every_admitted_request_is_settled_once_and_nothing_is_left(valkey_url: str) -> None:
    Life.url = valkey_url
    run_state_machine_as_test(Life, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
