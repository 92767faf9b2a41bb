"""Whatever happens in whatever order: nothing stays held, and what is spent is the sum of the usage rows.

``RANDOM_OPERATIONS=10000`` calls the store about that often; about a thousand times without it.
"""

import asyncio
import dataclasses
import os
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.limits import KINDS, Level
from domain.price import PriceRow
from domain.usage import Usage
from gateway.seeding import bounds
from tests.integration.ready import seeking, world
from tests.integration.ready.conftest import ITEM
from workers.ready.item import Ending, NewItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Gap, Hit, Unknown, Verdict

T = TypeVar("T")
STEPS = 50
EXAMPLES = int(os.environ.get("RANDOM_OPERATIONS", "1000")) // 25  # most end before their last step
GATEWAYS, WORKERS = ("g1", "g2"), ("w1", "w2")
OWNERS = ((1, 11), (1, 12), (2, 21))
PICK = st.integers(0, 100)
ANSWERS = st.sampled_from(("x", "y"))
SELDOM = st.integers(0, 5).map(lambda roll: roll == 5)
USED = st.builds(Usage, st.integers(50, 120), st.integers(0, 50), st.integers(0, 120))
PRICES = (
    PriceRow(8, "1.", "", datetime(2026, 1, 1, tzinfo=UTC), 10, 1, 20),
    PriceRow(7, "", "", datetime(2026, 1, 1, tzinfo=UTC), 30, 3, 60),
)
WIDE = dict.fromkeys(KINDS, 1_000_000)
TIGHT = WIDE | {"max_concurrent": 3, "requests_per_day": 9, "tokens_per_month": 1_500, "output_tokens_per_minute": 900}
LIMITS = {
    "none": (),
    "tenant": world.limits(Level.TENANT, **WIDE),
    "both": world.limits(Level.TENANT, **WIDE) + world.limits(Level.KEY, **TIGHT),
    "tight": world.limits(Level.TENANT, **TIGHT),
}


class Books(RuleBasedStateMachine):
    """Two gateways and two workers, three keys of two tenants, and a database that fills from the settlement stream.

    ``open`` is what gateways believe to be under way, ``rows`` what the database has, by request id.
    """

    url = ""
    operations = 0
    seen: ClassVar[Counter[str]] = Counter()

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SyncRedis.from_url(self.url)
        self.store.flushall()
        self.ready = ReadySet(Redis.from_url(self.url))
        self.open: dict[str, tuple[NewItem, int]] = {}
        self.held: list[tuple[str, str, int]] = []
        self.rows: dict[str, Mapping[str, str]] = {}
        self.admitted: set[str] = set()
        self.unbooked: set[str] = set()
        self.count = 0
        self._begin()

    def _begin(self) -> None:
        """Everybody says to an empty store that he is there."""
        self.held = []
        self._do(self.ready.load())
        for gateway_id in GATEWAYS:
            self._do(self.ready.gateway_beat(gateway_id, 60_000))
        for worker_id in WORKERS:
            world.beat(self.store, worker_id, 8)
            self.store.hset(f"sl:worker:{worker_id}", "version", "1.0.0-x")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        type(self).operations += 1
        return self.loop.run_until_complete(work)

    # --- the gateways -------------------------------------------------------------------------------------------------

    @rule(
        gateway=st.sampled_from(GATEWAYS),
        owner=st.sampled_from(OWNERS),
        limits=st.sampled_from(sorted(LIMITS)),
        prompt=st.integers(1, 200),
        output=st.integers(1, 200),
        number=st.integers(1, 4),
        twice=st.booleans(),
        answer=st.one_of(st.just(""), ANSWERS),
        percent=st.sampled_from((0, 30, 100)),
    )
    def admit(self, number: int, twice: bool, **fields: Any) -> None:
        for _ in range(number):
            self._admit_one(twice=twice, **fields)

    def _admit_one(
        self,
        *,
        gateway: str,
        owner: tuple[int, int],
        limits: str,
        prompt: int,
        output: int,
        twice: bool,
        answer: str,
        percent: int,
    ) -> None:
        self.count += 1
        one = dataclasses.replace(
            ITEM,
            request_id=f"r{self.count}",
            tenant=f"t{owner[0]}",
            tenant_id=owner[0],
            key_id=owner[1],
            gateway_id=gateway,
            limits=LIMITS[limits],
            prices=PRICES,
            prompt_tokens=prompt,
            output_tokens=output,
            sought=seeking.seeking(key=answer, flight=answer, price_percent=percent) if answer else None,
        )
        verdict = self._admit(one)
        self.seen["Following" if isinstance(verdict, Admitted) and verdict.follows else type(verdict).__name__] += 1
        if isinstance(verdict, Admitted):
            self.open[one.request_id] = one, int(time.time() * 1000)
        if isinstance(verdict, Admitted | Hit):
            self.admitted.add(one.request_id)
            self._check_caps(one, holds_slot=isinstance(verdict, Admitted))
        if twice:
            assert type(self._admit(one)) is type(verdict)

    def _admit(self, one: NewItem) -> Verdict:
        while isinstance(verdict := self._do(self.ready.admit(one)), Unknown):
            if verdict.unsettled:
                self.settle()
            else:
                for gap in verdict.gaps:
                    self._do(self.ready.seed(world.owner(one, gap), gap, self._rows_before(world.owner(one, gap), gap)))
        return verdict

    def _check_caps(self, one: NewItem, *, holds_slot: bool) -> None:
        for limit in one.limits:
            owner = f"{limit.level.value}:{one.tenant_id if limit.level is Level.TENANT else one.key_id}"
            [day, *_] = sorted(self.store.keys(f"sl:spent:{owner}:d*"), reverse=True)
            if holds_slot and limit.name == "max_concurrent" and limit.level is Level.TENANT:
                assert self.store.scard(f"sl:slots:{owner}") <= limit.cap
            if limit.name == "requests_per_day":
                used = self.store.hmget(day, "r", "hr")
                assert sum(int(one or 0) for one in used) <= limit.cap

    @rule(pick=PICK, tokens=st.integers(0, 60))
    def cancel(self, pick: int, tokens: int) -> None:
        if self.open:
            self._end(sorted(self.open)[pick % len(self.open)], tokens)

    def _end(self, request_id: str, tokens: int) -> None:
        """End one from its gateway's side, and settle it from memory if the store has lost it."""
        one, at_ms = self.open[request_id]
        ending = Ending("cancelled", 499, "client_closed", Usage(one.prompt_tokens, 0, tokens), None)
        state = self._do(self.ready.cancel(request_id, ending.outcome, ending.status, ending.code, ending.usage))
        if state != "aborting":
            del self.open[request_id]
        if state == "gone":
            cache = "coalesced" if one.sought and tokens % 2 else ""
            self._do(self.ready.settle_forgotten(one, ending, at_ms, 0, "1.0.0-x", cache))

    @rule(pick=PICK, used=USED)
    def end_following(self, pick: int, used: Usage) -> None:
        shared = [name for name in sorted(self.open) if self.store.hget(f"sl:item:{name}", "follows")]
        if shared:
            name = shared[pick % len(shared)]
            for state in ("closed", "gone"):
                assert self._do(self.ready.end_following(name, *world.COMPLETED, used, "1.0.0-x")) == state
            del self.open[name]
            self.seen["coalesced"] += 1

    @rule(answer=ANSWERS, used=USED, tenant_id=st.sampled_from((1, 2)), max_bytes=st.sampled_from((1_500, 100_000)))
    def keep_answer(self, answer: str, **of_answer: Any) -> None:
        self._do(seeking.keep(self.ready, answer, **of_answer))

    @rule(tenant_id=st.sampled_from((1, 2)))
    def erase_answers(self, tenant_id: int) -> None:
        self._do(self.ready.erase_answers(tenant_id))

    @rule(pick=PICK, tokens=st.sampled_from((0, 0, 1, 60)))
    def requeue(self, pick: int, tokens: int) -> None:
        lost = [name for name in sorted(self.open) if self.store.hget(f"sl:item:{name}", "state") == b"lost"]
        if lost:
            name = lost[pick % len(lost)]
            attempt = int(self.store.hget(f"sl:item:{name}", "attempt"))
            text = "text" if tokens else ""
            state = self._do(self.ready.requeue(name, self.open[name][0].gateway_id, attempt, text, tokens))
            self.seen[f"requeued: {state}"] += 1
            if state not in ("ring", "ready", "following"):
                self._end(name, tokens)

    # --- the workers --------------------------------------------------------------------------------------------------

    @rule(worker=st.sampled_from(WORKERS), free=st.integers(1, 8), finished=st.lists(USED, min_size=1, max_size=4))
    def claim(self, worker: str, free: int, finished: list[Usage]) -> None:
        claim = self._do(self.ready.claim(worker, "m", "b", world.room(free)))
        if claim:
            taken = [(one.request_id, worker, one.attempt) for one in claim.items]
            self.held += taken
            for one, used in zip(taken, finished, strict=False):
                self._finish(one, used)

    @rule(pick=PICK, used=USED)
    def finish(self, pick: int, used: Usage) -> None:
        if self.held:
            one = self.held[pick % len(self.held)]
            self._finish(one, used)
            assert not self._do(world.finish(self.ready, *one, used))

    def _finish(self, one: tuple[str, str, int], used: Usage) -> None:
        if self._do(world.finish(self.ready, *one, used)):
            self.open.pop(one[0], None)  # its gateway is told in the same script
            self.seen["finished"] += 1

    @rule(pick=PICK, tokens=st.integers(0, 50))
    def progress(self, pick: int, tokens: int) -> None:
        if self.held:
            request_id, worker, _ = self.held[pick % len(self.held)]
            pipeline = self.ready.redis.pipeline(transaction=False)
            self.ready.queue_progress(pipeline, worker, {request_id: tokens})
            self._do(pipeline.execute())

    @rule(pick=PICK, forgive=st.booleans())
    def lose(self, pick: int, forgive: bool) -> None:
        if self.held:
            self._do(self.ready.lose(*self.held[pick % len(self.held)], "engine_error", forgive=forgive))

    # --- deaths -------------------------------------------------------------------------------------------------------

    @rule(pick=PICK)
    def expire(self, pick: int) -> None:
        waiting = sorted(name.decode() for name in self.store.zrange("sl:deadlines", 0, -1))
        if waiting:
            self.store.zadd("sl:deadlines", {waiting[pick % len(waiting)]: 1})
            self._sweep()

    @rule(worker=st.sampled_from(WORKERS))
    def worker_dies(self, worker: str) -> None:
        world.kill(self.store, f"sl:worker:{worker}")
        self._sweep()
        world.beat(self.store, worker, 8)
        self.store.hset(f"sl:worker:{worker}", "version", "1.0.0-x")

    @rule(gateway=st.sampled_from(GATEWAYS))
    def gateway_dies(self, gateway: str) -> None:
        world.kill(self.store, f"sl:gateway:{gateway}")
        self._sweep()
        for name in [name for name, (one, _) in self.open.items() if one.gateway_id == gateway]:
            if not self.store.exists(f"sl:item:{name}") and name not in self._settled():
                self.unbooked.add(name)  # the store has lost it, and now its gateway has too
            del self.open[name]
        self._do(self.ready.gateway_beat(gateway, 60_000))

    def _sweep(self) -> None:
        world.sweep(self.store)
        for name in list(self.open):  # who was expired or ended is told
            if not self.store.exists(f"sl:item:{name}") and name in self._settled():
                del self.open[name]

    @rule(settled=st.booleans(), really=SELDOM)
    def store_is_flushed(self, settled: bool, really: bool) -> None:
        if not really:
            return
        if settled:
            self.settle()
        # What had ended and was not yet written is lost for good, and so is what ran on for nobody.
        self.unbooked |= self.admitted - set(self.rows) - set(self.open)
        self.store.flushall()
        self.seen["flushed"] += 1
        self._begin()

    @rule(really=SELDOM)
    def counts_of_keys_are_deleted(self, really: bool) -> None:
        keys: Any = self.store.keys("sl:spent:k:*")
        if really and keys:
            self.store.delete(*keys)

    # --- the database -------------------------------------------------------------------------------------------------

    @rule()
    def settle(self) -> None:
        for row in world.settlements(self.store):
            assert row["rid"] not in self.rows, "settled twice"
            self.rows[row["rid"]] = row
        self.store.xtrim("sl:settle", 0)

    def _settled(self) -> set[str]:
        return set(self.rows) | {row["rid"] for row in world.settlements(self.store)}

    def _rows_before(self, owner_id: int, gap: Gap) -> tuple[int, int, int, int, int]:
        rows = [row for row in self._rows_of(gap.level, owner_id, gap.period) if int(row["t_end"]) < gap.since_ms]
        return (*_sums(rows), 0)

    def _rows_of(self, level: Level, owner_id: int, period: str) -> list[Mapping[str, str]]:
        start, end = (int(moment.timestamp() * 1000) for moment in bounds(period))
        name = "tenant_id" if level is Level.TENANT else "key_id"
        return [row for row in self.rows.values() if int(row[name]) == owner_id and start <= int(row["t_admit"]) < end]

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            self._check()
        finally:
            self._do(self.ready.redis.aclose())
            self.store.close()
            self.loop.close()

    def _check(self) -> None:
        """End all that is open: then nothing may be left, and every sum must be right."""
        for who in (*WORKERS, *GATEWAYS):
            world.kill(self.store, f"sl:worker:{who}")
            world.kill(self.store, f"sl:gateway:{who}")
        for _ in range(4):
            self._sweep()
        for name in list(self.open):
            self._end(name, 0)
        self.settle()
        assert set(self.rows) | self.unbooked == self.admitted
        assert world.leftovers(self.store) == []
        assert world.held(self.store) == {}
        seeking.check_indexes(self.store)
        for key in self.store.keys("sl:spent:*"):
            _, _, level, owner_id, period = key.decode().split(":")
            self._check_spent(key, Level(level), int(owner_id), period)

    def _check_spent(self, key: bytes, level: Level, owner_id: int, period: str) -> None:
        since, base = self.store.hmget(key, "since", "base")
        if base != b"1":
            gap = Gap(level, period, int(since))
            while not self._do(self.ready.seed(owner_id, gap, self._rows_before(owner_id, gap))):
                time.sleep(0.001)  # it counts from the next ms on
        found = tuple(int(one or 0) for one in self.store.hmget(key, "r", "i", "o", "c"))
        assert found == _sums(self._rows_of(level, owner_id, period)), key


def _sums(rows: list[Mapping[str, str]]) -> tuple[int, int, int, int]:
    names = ("prompt", "completion", "cost")
    input_tokens, output_tokens, cost = (sum(int(row[name]) for row in rows) for name in names)
    return len(rows), input_tokens, output_tokens, cost


def test_nothing_stays_held_and_what_is_spent_is_the_sum_of_the_rows(valkey_url: str) -> None:
    Books.url, Books.operations, Books.seen = valkey_url, 0, Counter()
    run_state_machine_as_test(
        Books, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, print_blob=True)
    )
    sys.stdout.write(f"{Books.operations} calls to the store: {dict(Books.seen)}\n")
    assert Books.seen["Admitted"]
    if EXAMPLES >= 400:  # in fewer, chance may leave one of them out
        assert Books.seen["Hit"]
        assert Books.seen["coalesced"]
