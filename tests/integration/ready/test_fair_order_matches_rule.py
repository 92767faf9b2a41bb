"""The ready set takes items in the very order of the rule, whatever comes, runs, ends or leaves in between."""

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.fair_order import OUTPUT_COST, FairOrder, WaitingItem, service_cost
from domain.usage import Usage
from tests.integration.ready import world
from tests.integration.ready.conftest import ITEM
from workers.ready.ready_set import ReadySet

T = TypeVar("T")
# Powers of two and multiples of ten: all counters are exact, in the store's decimals too.
WEIGHTS = {"ant": 1.0, "bee": 2.0, "cat": 0.5}
TOKENS = st.integers(0, 50).map(lambda tens: 10 * tens)


@dataclasses.dataclass
class Running:
    """An item that runs, and what its tenant was charged for it so far."""

    item: WaitingItem
    produced: int = 0

    @property
    def charged(self) -> float:
        return self.item.prompt_cost + OUTPUT_COST * self.produced


class TwoOrders(RuleBasedStateMachine):
    """The same events for the ready set and for the rule."""

    url = ""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SyncRedis.from_url(self.url)
        self.store.flushall()
        self.ready = ReadySet(Redis.from_url(self.url))
        self.do(self.ready.load())
        self.do(self.ready.gateway_beat("g1", 60_000))
        world.beat(self.store, "w1", 1)
        self.order = FairOrder()
        self.count = 0
        self.running: list[Running] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @rule(tenant=st.sampled_from(list(WEIGHTS)), prompt=TOKENS)
    def arrive(self, tenant: str, prompt: int) -> None:
        self.count += 1
        request_id = f"r{self.count}"
        weight = WEIGHTS[tenant]
        new = dataclasses.replace(
            ITEM, request_id=request_id, tenant=tenant, weight=weight, prompt_tokens=prompt, output_tokens=1_000
        )
        self.do(self.ready.admit(new))
        self.order.arrive(tenant, weight, request_id, self.count, service_cost(prompt, 0, 0))

    @rule()
    def take(self) -> None:
        expected = self.order.take()
        claim = self.do(world.claim(self.ready, "w1", 1))
        assert [one.request_id for one in claim.items] == ([expected.item_id] if expected else [])
        if expected:
            self.running.append(Running(expected))

    @rule(pick=st.integers(0, 100), tokens=TOKENS)
    def produce(self, pick: int, tokens: int) -> None:
        if not self.running:
            return
        one = self.running[pick % len(self.running)]
        one.produced += tokens
        self.order.charge(one.item.tenant, OUTPUT_COST * tokens)
        pipeline = self.ready.redis.pipeline(transaction=False)
        self.ready.queue_progress(pipeline, "w1", {one.item.item_id: one.produced})
        self.do(pipeline.execute())

    @rule(pick=st.integers(0, 100), prompt=TOKENS, cached=TOKENS, output=TOKENS)
    def finish(self, pick: int, prompt: int, cached: int, output: int) -> None:
        if not self.running:
            return
        one = self.running.pop(pick % len(self.running))
        self.order.charge(one.item.tenant, service_cost(prompt, cached, output) - one.charged)
        used = Usage(prompt + cached, cached, output)
        assert self.do(world.finish(self.ready, one.item.item_id, "w1", used=used, free=1))

    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        if self.count:
            request_id = f"r{pick % self.count + 1}"
            if self.order.withdraw(request_id):
                self.do(self.ready.cancel(request_id, "cancelled", 499, "client_closed", Usage()))

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            while len(self.order):
                self.take()
        finally:
            self.do(self.ready.redis.aclose())
            self.store.close()
            self.loop.close()


def test_the_ready_set_takes_items_in_the_order_of_the_rule(valkey_url: str) -> None:
    TwoOrders.url = valkey_url
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        TwoOrders, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
