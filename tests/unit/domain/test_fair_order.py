"""Fair order: nothing is lost, backlogged tenants get service by weight within the proved bound, nobody starves."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fair_order import AGED_EVERY, OUTPUT_COST, FairOrder, WaitingItem, next_class, service_cost
from domain.qos import QosClass

TENANTS = ["ant", "bee", "cat", "dog"]
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 4.0])
SIZES = st.tuples(st.integers(1, 60), st.integers(1, 60))  # prompt and output tokens of one item
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from(TENANTS), st.integers(0, 500)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
        st.tuples(st.just("charge"), st.sampled_from(TENANTS), st.integers(-50, 500)),
        st.tuples(st.just("withdraw"), st.just(""), st.integers(0, 300)),
    ),
    max_size=300,
)


def test_service_is_counted_in_weighted_tokens() -> None:
    assert service_cost(100, 0, 0) == 100
    assert service_cost(0, 100, 0) == pytest.approx(10)
    assert service_cost(20, 30, 50) == pytest.approx(20 + 3 + 100)


# -- The order, against a rule written down naively ----------------------------------------------------------------


class NaiveOrder:
    """The same rule without any index: every operation looks at everything."""

    def __init__(self) -> None:
        self.items: list[WaitingItem] = []
        self.counters: dict[str, float] = {}
        self.clock = 0.0

    def waiting(self) -> set[str]:
        return {item.tenant for item in self.items}

    def arrive(self, item: WaitingItem) -> None:
        if item.tenant not in self.waiting():
            present = min((self.counters[tenant] for tenant in self.waiting()), default=self.clock)
            self.counters[item.tenant] = max(self.counters.get(item.tenant, 0), present)
        self.items.append(item)

    def first(self) -> WaitingItem | None:
        return min(self.items, key=lambda i: (self.counters[i.tenant], i.tenant, i.order, i.item_id), default=None)

    def take(self) -> WaitingItem | None:
        item = self.first()
        if item:
            self.clock = max(self.clock, self.counters[item.tenant])
            self.items.remove(item)
        return item


@given(ACTIONS)
def test_the_order_is_that_of_the_rule_and_no_item_is_lost_or_doubled(actions: list[tuple[str, str, int]]) -> None:
    order, naive, weight = FairOrder(), NaiveOrder(), 2.0
    for at, (action, tenant, number) in enumerate(actions):
        if action == "arrive":
            order.arrive(tenant, weight, f"i{at}", at, number)
            naive.arrive(WaitingItem(tenant, f"i{at}", at, number))
        elif action == "charge" and tenant in naive.counters:
            order.charge(tenant, number)
            naive.counters[tenant] += number / weight
        elif action == "withdraw":
            gone = next((item for item in naive.items if item.item_id == f"i{number}"), None)
            assert order.withdraw(f"i{number}") == (gone is not None)
            if gone:
                naive.items.remove(gone)
        elif action == "take":
            check_take(order, naive, weight)
        assert len(order) == len(naive.items)
        assert all(order.counter(name) == counter for name, counter in naive.counters.items())
    while naive.items:
        check_take(order, naive, weight)
    assert order.take() is None


def check_take(order: FairOrder, naive: NaiveOrder, weight: float) -> None:
    expected = naive.take()
    assert order.take() == expected
    if expected:
        naive.counters[expected.tenant] += expected.prompt_cost / weight


@given(ACTIONS)
def test_something_is_taken_whenever_something_waits(actions: list[tuple[str, str, int]]) -> None:
    order = FairOrder()
    for at, (action, tenant, number) in enumerate(actions):
        if action == "arrive":
            order.arrive(tenant, 1, f"i{at}", at, number)
        elif action == "take":
            waited = len(order)
            assert (order.take() is not None) == (waited > 0)


@given(st.lists(st.tuples(st.sampled_from(TENANTS), WEIGHTS, st.integers(0, 500)), max_size=60))
def test_inside_a_tenant_the_first_to_come_is_the_first_taken(arrivals: list[tuple[str, float, int]]) -> None:
    order = FairOrder()
    for at, (tenant, weight, cost) in enumerate(arrivals):
        order.arrive(tenant, weight, f"i{at}", at, cost)
    taken = [item for item in iter(order.take, None) if item]
    for name in TENANTS:
        places = [item.order for item in taken if item.tenant == name]
        assert places == sorted(places)


def test_an_item_that_comes_back_takes_its_old_place() -> None:
    order = FairOrder()
    for at in range(3):
        order.arrive("ant", 1, f"i{at}", at, 10)
    first = order.take()
    assert first
    order.arrive("ant", 1, first.item_id, first.order, 0)
    assert [item.item_id for item in iter(order.take, None) if item] == ["i0", "i1", "i2"]


def test_an_item_withdrawn_and_put_back_elsewhere_is_taken_once() -> None:
    order = FairOrder()
    order.arrive("ant", 1, "a", 1, 10)
    order.arrive("ant", 1, "b", 2, 10)
    assert order.withdraw("a")
    assert not order.withdraw("a")
    order.arrive("ant", 1, "a", 3, 10)
    order.arrive("ant", 1, "a", 0, 10)  # waits already: stays where it is
    assert [item.item_id for item in iter(order.take, None) if item] == ["b", "a"]


def test_a_weight_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        FairOrder().arrive("ant", 0, "a", 1, 10)


# -- The bound ----------------------------------------------------------------------------------------------------


class BatchEngine:
    """Continuous batching in a KV cache of ``max_tokens``: an item enters when its prompt and whole output fit."""

    def __init__(self, order: FairOrder, max_tokens: int, on_service: Callable[[str, float], None]) -> None:
        self.order, self.free, self.on_service = order, max_tokens, on_service
        self.running: list[list[int]] = []  # [output tokens left, size] of each item
        self.tenant_of: list[str] = []

    def fill(self, sizes: dict[str, tuple[int, int]]) -> list[WaitingItem]:
        """Take items while the next one fits."""
        taken = []
        while (item := self.order.peek()) and sum(sizes[item.item_id]) <= self.free:
            assert self.order.take() == item
            prompt, output = sizes[item.item_id]
            self.free -= prompt + output
            self.running.append([output, prompt + output])
            self.tenant_of.append(item.tenant)
            self.on_service(item.tenant, item.prompt_cost)
            taken.append(item)
        return taken

    def step(self) -> None:
        """One output token for each item that runs."""
        for tenant in self.tenant_of:
            self.order.charge(tenant, OUTPUT_COST)
            self.on_service(tenant, OUTPUT_COST)
        for item in self.running:
            item[0] -= 1
        self.free += sum(size for left, size in self.running if not left)
        alive = [at for at, (left, _) in enumerate(self.running) if left]
        self.running = [self.running[at] for at in alive]
        self.tenant_of = [self.tenant_of[at] for at in alive]


class Busy:
    """Tenants whose lines are kept full, or left alone for a while, in front of one engine."""

    def __init__(self, weights: dict[str, float], sizes: dict[str, list[tuple[int, int]]], max_tokens: int) -> None:
        self.order = FairOrder()
        self.weights = weights
        self.service = dict.fromkeys(weights, 0.0)
        self.engine = BatchEngine(self.order, max_tokens, self._serve)
        self._next = {tenant: itertools.cycle(list_) for tenant, list_ in sizes.items()}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._waiting = dict.fromkeys(weights, 0)
        self._number = itertools.count()

    def round(self, coming: set[str]) -> None:
        """Each of ``coming`` has two items waiting at least, before and after the engine fills up; then one step."""
        while True:
            self._arrive(coming)
            taken = self.engine.fill(self._sizes)
            for item in taken:
                self._waiting[item.tenant] -= 1
            if not taken:
                break
        self.engine.step()

    def backlogged(self) -> set[str]:
        return {tenant for tenant, waiting in self._waiting.items() if waiting}

    def _arrive(self, coming: set[str]) -> None:
        # As many as could enter at once, so that a line never runs empty in the middle of a fill.
        for tenant in coming:
            while self._waiting[tenant] < 1 + self.engine.free // 2:
                number = next(self._number)
                size = self._sizes[f"i{number}"] = next(self._next[tenant])
                self.order.arrive(tenant, self.weights[tenant], f"i{number}", number, service_cost(size[0], 0, 0))
                self._waiting[tenant] += 1

    def _serve(self, tenant: str, cost: float) -> None:
        self.service[tenant] += cost


def share(system: Busy, tenant: str) -> float:
    return system.service[tenant] / system.weights[tenant]


@given(
    st.fixed_dictionaries(dict.fromkeys(TENANTS[:3], WEIGHTS)),
    st.fixed_dictionaries({tenant: st.lists(SIZES, min_size=1, max_size=5) for tenant in TENANTS[:3]}),
    st.integers(120, 400),
    st.lists(st.sets(st.sampled_from(TENANTS[:3])), min_size=1, max_size=12),
)
def test_the_service_of_two_backlogged_tenants_differs_within_the_proved_bound(
    weights: dict[str, float],
    sizes: dict[str, list[tuple[int, int]]],
    max_tokens: int,
    phases: list[set[str]],
) -> None:
    """|W_f/w_f - W_g/w_g| <= U/w_f + U/w_g over any time in which both wait, with U = max(1 * L_input, 2 * M).

    That is 2U for weights of 1 (theorem 4.4 of the paper). L_input: the longest prompt. M: tokens that the KV cache
    holds.
    """
    system = Busy(weights, sizes, max_tokens)
    longest = max(prompt for list_ in sizes.values() for prompt, _ in list_)
    most = max(service_cost(longest, 0, 0), service_cost(0, 0, max_tokens))
    lows: dict[tuple[str, str], float] = {}
    for coming in (phase for phase in phases for _ in range(20)):
        before = system.backlogged()
        system.round(coming)
        both = before & system.backlogged()
        for pair in itertools.permutations(weights, 2):
            if not set(pair) <= both:
                lows.pop(pair, None)
                continue
            difference = share(system, pair[0]) - share(system, pair[1])
            lows[pair] = min(lows.get(pair, difference), difference)
            assert difference - lows[pair] <= most / weights[pair[0]] + most / weights[pair[1]] + 1e-6


def test_weights_of_three_to_one_share_three_to_one() -> None:
    sizes = {"ant": [(30, 30), (5, 40)], "bee": [(50, 10)]}
    system = Busy({"ant": 3.0, "bee": 1.0}, sizes, 400)
    for _ in range(5_000):
        system.round({"ant", "bee"})
    assert system.service["ant"] / system.service["bee"] == pytest.approx(3, rel=0.02)


def test_short_requests_are_not_crowded_out_by_long_ones() -> None:
    system = Busy({"ant": 1.0, "bee": 1.0}, {"ant": [(300, 60)], "bee": [(4, 8)]}, 800)
    for _ in range(5_000):
        system.round({"ant", "bee"})
    assert system.service["ant"] / system.service["bee"] == pytest.approx(1, rel=0.02)


# -- Coming and going ---------------------------------------------------------------------------------------------


@given(st.integers(1, 2_000), st.integers(1, 100))
def test_an_idle_tenant_hoards_no_credit(alone: int, cost: int) -> None:
    order = FairOrder()
    order.arrive("bee", 1, "early", 0, cost)
    order.take()
    for at in range(alone):
        order.arrive("ant", 1, f"ant-{at}", at, cost)
        order.take()
    for at in range(20):
        order.arrive("ant", 1, f"ant-more-{at}", at, cost)
        order.arrive("bee", 1, f"bee-{at}", at, cost)
    taken = [item.tenant for item in (order.take() for _ in range(20)) if item]
    assert abs(taken.count("ant") - taken.count("bee")) <= 1


@given(st.integers(0, 5), st.integers(1, 50), st.floats(0, 1_000))
def test_a_tenant_that_comes_back_waits_no_longer_than_its_own_debt(others: int, cost: int, debt: float) -> None:
    """It owes what its items cost after they were taken; meanwhile each other tenant gets so much and one item more."""
    order = FairOrder()
    names = [f"other-{at}" for at in range(others)]
    for name, at in itertools.product(names, range(2_000 // cost + 3)):
        order.arrive(name, 1, f"{name}-{at}", at, cost)
    order.arrive("ant", 1, "first", 0, cost)
    while (item := order.take()) and item.tenant != "ant":
        pass
    order.charge("ant", debt)
    order.arrive("ant", 1, "second", 1, cost)
    overtaken = 0
    while (item := order.take()) and item.tenant != "ant":
        overtaken += 1
    assert overtaken <= others * ((debt + cost) / cost + 1)


def test_an_estimate_that_was_too_high_is_given_back() -> None:
    order = FairOrder()
    for at in range(3):
        order.arrive("ant", 2, f"ant-{at}", at, 100)
        order.arrive("bee", 2, f"bee-{at}", at, 60)
    first, second = order.take(), order.take()
    assert first
    assert second
    assert [first.tenant, second.tenant] == ["ant", "bee"]
    order.charge("ant", -90)  # nearly all of the prompt was in the KV cache
    assert [order.counter("ant"), order.counter("bee")] == [5, 30]
    assert [item.item_id for item in (order.take(), order.take()) if item] == ["ant-1", "bee-1"]


# -- Across classes -----------------------------------------------------------------------------------------------

AGEING = {QosClass.P1: 5_000.0, QosClass.P2: 30_000.0}


@given(st.dictionaries(st.sampled_from(list(QosClass)), st.floats(0, 1e6)), st.integers(0, 10**9))
def test_the_most_urgent_class_is_next_except_on_every_eighth_turn(
    waits: dict[QosClass, float], taken_count: int
) -> None:
    chosen = next_class(waits, taken_count, AGEING)
    aged = {name for name, wait in waits.items() if wait > AGEING.get(name, float("inf"))}
    if taken_count % AGED_EVERY != AGED_EVERY - 1 or not aged:
        assert chosen == min(waits, default=None)
    else:
        assert chosen in aged


def test_the_class_that_is_most_overdue_gets_the_turn() -> None:
    turn = AGED_EVERY - 1
    assert next_class({QosClass.P0: 9e9, QosClass.P1: 5_001, QosClass.P2: 29_999}, turn, AGEING) is QosClass.P1
    assert next_class({QosClass.P0: 9e9, QosClass.P1: 9_000, QosClass.P2: 40_000}, turn, AGEING) is QosClass.P2
    assert next_class({QosClass.P0: 9e9, QosClass.P1: 5_000, QosClass.P2: 30_000}, turn, AGEING) is QosClass.P0


@given(
    st.lists(st.tuples(st.sampled_from(list(AGEING)), st.integers(0, 60_000)), min_size=1, max_size=12),
    st.data(),
    st.integers(0, 7),
    st.integers(1, 300),
)
def test_an_aged_item_is_taken_within_eight_turns_for_each_one_more_overdue(
    waits: list[tuple[QosClass, int]], data: st.DataObject, taken_count: int, take_every_ms: int
) -> None:
    """However many P0 items come. Inside its class the items are taken here in the order of their age."""
    waiting = sorted((AGEING[name] - wait, at, name) for at, (name, wait) in enumerate(waits))
    overdue = [item for item in waiting if item[0] < 0]
    if not overdue:
        return
    target = data.draw(st.sampled_from(overdue))
    ahead = waiting.index(target)
    now = 0
    for _ in range(AGED_EVERY * (ahead + 1)):
        oldest = {QosClass.P0: 1.0}
        for due, _at, name in reversed(waiting):
            oldest[name] = AGEING[name] - due + now
        chosen = next_class(oldest, taken_count, AGEING)
        if chosen is not QosClass.P0:
            waiting.remove(next(item for item in waiting if item[2] is chosen))
        taken_count += 1
        now += take_every_ms
    assert target not in waiting
