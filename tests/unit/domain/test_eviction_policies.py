"""Eviction policies: each against a slow and obvious model of it, and all of them against one contract."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.eviction.arc import Arc
from domain.eviction.lru import Lru
from domain.eviction.lru_k import MAX_K, LruK
from domain.eviction.mq import QUEUES, Mq, Returns
from domain.eviction.named import NAMES, change, make_policy
from domain.eviction.policy import Key, Policy

KEYS = st.integers(0, 11).map(lambda number: b"k%d" % number)
ASKED = st.lists(KEYS, max_size=120)
CAPACITY = st.integers(1, 6)
MAKERS: dict[str, Callable[[], Policy]] = {"plain lru": Lru, **{name: lambda n=name: make_policy(n) for name in NAMES}}


class Cache:
    """A cache of so many keys, ordered by a policy."""

    def __init__(self, policy: Policy, capacity: int) -> None:
        self.policy, self.capacity = policy, capacity
        self.held: set[Key] = set()
        self.hits = 0

    def ask(self, key: Key) -> Key | None:
        """Ask for a key; what went for it, if anything did."""
        if key in self.held:
            self.hits += 1
            self.policy.hit(key)
            return None
        gone = None
        if len(self.held) >= self.capacity:
            gone = self.policy.evict()
            self.held.remove(gone)
        self.policy.admit(key)
        self.held.add(key)
        return gone


def run_model(asked: list[Key], capacity: int, ks: Iterator[int], recalled: int) -> list[Key | None]:
    """LRU-K as its definition says, looking through everything: what goes at each request."""
    uses: dict[Key, list[int]] = {}
    held: list[Key] = []
    gone_order: list[Key] = []
    went: list[Key | None] = []
    for now, key in enumerate(asked, start=1):
        k = next(ks)
        victim = None
        if key not in held and len(held) >= capacity:
            # The first of those used less than k times in the order of LRU; else whose k-th last use is longest ago.
            victim = min(held, key=lambda one: (uses[one][-k] if len(uses[one]) >= k else 0, uses[one][-1]))
            held.remove(victim)
            gone_order = [*[one for one in gone_order if one != victim], victim][-recalled:] if recalled else []
        if key not in held:
            if key not in gone_order:
                uses[key] = []
            gone_order = [one for one in gone_order if one != key]
            held.append(key)
        uses[key] = [*uses[key], now]
        went.append(victim)
    return went


@given(asked=ASKED, capacity=CAPACITY, k=st.integers(1, MAX_K))
def test_lru_k_evicts_as_its_definition_says(asked: list[Key], capacity: int, k: int) -> None:
    cache = Cache(LruK(k, recalled=2.0), capacity)

    assert [cache.ask(key) for key in asked] == run_model(asked, capacity, iter([k] * len(asked)), 2 * capacity)


@given(asked=st.lists(st.tuples(KEYS, st.integers(1, MAX_K)), max_size=120), capacity=CAPACITY)
def test_a_change_of_k_loses_nothing(asked: list[tuple[Key, int]], capacity: int) -> None:
    policy = LruK(1, recalled=2.0)
    cache = Cache(policy, capacity)
    went = []
    for key, k in asked:
        policy.k = k
        went.append(cache.ask(key))

    assert went == run_model([key for key, _ in asked], capacity, iter([k for _, k in asked]), 2 * capacity)


@given(asked=ASKED, capacity=CAPACITY)
def test_lru_is_lru_1(asked: list[Key], capacity: int) -> None:
    plain, first = Cache(Lru(), capacity), Cache(LruK(1), capacity)

    assert [plain.ask(key) for key in asked] == [first.ask(key) for key in asked]


@pytest.mark.parametrize("k", [0, MAX_K + 1])
def test_there_is_no_other_k(k: int) -> None:
    with pytest.raises(ValueError, match=str(k)):
        LruK(k)


@given(asked=ASKED, capacity=CAPACITY)
def test_arc_recalls_no_more_than_it_holds_and_its_share_stays_in_bounds(asked: list[Key], capacity: int) -> None:
    policy = Arc()
    cache = Cache(policy, capacity)
    for key in asked:
        cache.ask(key)
        once, again, gone_once, gone_again = (
            set(keys) for keys in (policy._once, policy._again, policy._gone_once, policy._gone_again)
        )
        assert len(once | again | gone_once | gone_again) == len(once) + len(again) + len(gone_once) + len(gone_again)
        assert once | again == cache.held
        assert 0 <= policy.wanted_once <= capacity
        assert len(gone_once) <= capacity
        assert len(cache.held) + len(gone_once) + len(gone_again) <= 2 * capacity + 1


def test_arc_shields_what_is_used_again_from_a_scan() -> None:
    cache = Cache(Arc(), 4)
    for key in (b"a", b"b", b"a", b"b"):
        cache.ask(key)
    for number in range(100):
        cache.ask(b"scan%d" % number)

    assert {b"a", b"b"} <= cache.held


@given(asked=ASKED, capacity=CAPACITY)
def test_mq_keeps_each_key_in_one_queue_and_never_above_its_uses(asked: list[Key], capacity: int) -> None:
    policy = Mq()
    cache = Cache(policy, capacity)
    for key in asked:
        gone = cache.ask(key)
        queued = [(one, number) for number, queue in enumerate(policy._queues) for one in queue]
        assert sorted(one for one, _ in queued) == sorted(cache.held)
        assert all(number <= min(policy._held[one].uses.bit_length() - 1, QUEUES - 1) for one, number in queued)
        assert all(policy._held[one].queue == number for one, number in queued)
        assert len(policy._gone) <= 4 * capacity
        if gone is not None:
            assert gone in policy._gone


def test_mq_lets_the_often_used_sink_when_they_are_used_no_more() -> None:
    cache = Cache(Mq(), 3)
    for _ in range(8):
        cache.ask(b"old")
    for number in range(500):
        cache.ask(b"new%d" % (number // 2))

    assert b"old" not in cache.held


def test_mq_learns_how_long_most_keys_take_to_return() -> None:
    returns = Returns()
    for distance in range(1, 1_025):
        returns.add(distance)
    assert returns.usual == pytest.approx(820, rel=0.2)
    for _ in range(30_000):
        returns.add(5_000)

    assert returns.usual == pytest.approx(5_000, rel=0.2)


def test_mq_recalls_how_often_a_key_was_used() -> None:
    cache = Cache(Mq(), 1)
    for _ in range(4):
        cache.ask(b"a")
    assert cache.ask(b"b") == b"a"
    cache.ask(b"a")

    assert dict(cache.policy.uses()) == {b"a": 5}


@pytest.mark.parametrize("name", MAKERS)
@given(steps=st.lists(st.tuples(st.sampled_from(["ask", "remove", "evict"]), KEYS), max_size=100), capacity=CAPACITY)
def test_every_policy_holds_exactly_what_it_was_told(name: str, steps: list[tuple[str, Key]], capacity: int) -> None:
    policy = MAKERS[name]()
    cache = Cache(policy, capacity)
    for what, key in steps:
        if what == "ask":
            cache.ask(key)
        elif what == "remove":
            policy.remove(key)
            cache.held.discard(key)
        elif cache.held:
            gone = policy.evict()
            assert gone in cache.held
            cache.held.remove(gone)
        assert len(policy) == len(cache.held)
        assert {one for one, uses in policy.uses() if uses >= 1} == cache.held
    while cache.held:
        cache.held.remove(policy.evict())
    with pytest.raises(KeyError):
        policy.evict()


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_removed_leaves_no_trace_in_memory(name: str) -> None:
    policy = MAKERS[name]()
    for number in range(5_000):
        policy.admit(b"%d" % number)
        policy.remove(b"%d" % number)

    assert len(getattr(policy, "_heap", ())) < 200
    assert len(policy) == 0


@given(before=st.sampled_from(NAMES), after=st.sampled_from(NAMES), asked=ASKED, later=ASKED, capacity=CAPACITY)
def test_a_change_of_policy_keeps_what_is_held(
    before: str, after: str, asked: list[Key], later: list[Key], capacity: int
) -> None:
    cache = Cache(make_policy(before), capacity)
    for key in asked:
        cache.ask(key)
    cache.policy = change(cache.policy, after)

    assert {key for key, _ in cache.policy.uses()} == cache.held
    for key in later:
        cache.ask(key)
    assert len(cache.policy) == len(cache.held) <= capacity


def test_after_a_change_the_often_used_stay_before_the_once_used() -> None:
    for before in ("lru", "lru-2", "arc", "mq"):
        for after in ("lru-2", "arc", "mq"):
            cache = Cache(make_policy(before), 4)
            for key in (b"a", b"b", b"a", b"b", b"c", b"d"):
                cache.ask(key)
            cache.policy = change(cache.policy, after)
            cache.ask(b"e")
            assert {b"a", b"b"} <= cache.held, (before, after)


@pytest.mark.parametrize("name", ["lru-0", "lru-6", "lfu"])
def test_there_is_no_policy_of_another_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make_policy(name)
