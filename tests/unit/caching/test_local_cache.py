"""The first level: never more bytes than allowed, never an answer that is too old, pinned ones stay."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caching.entry import Entry
from caching.local import OVERHEAD_BYTES, LocalCache
from domain.eviction.named import NAMES, make_policy
from domain.usage import Usage

TTL_S = 60.0


def entry(size_bytes: int = 100, tenant_id: int = 1) -> Entry:
    """An entry that takes so many bytes beside the overhead."""
    bare = Entry(b"", "v", tenant_id, 0, Usage(1, 0, 1))
    return Entry(b"x" * (size_bytes - bare.size), "v", tenant_id, 0, Usage(1, 0, 1))


@dataclass
class Rig:
    """A cache of so many entries of 100 bytes, and its clock."""

    room: int
    policy: str = "lru"
    now_s: float = 0.0
    cache: LocalCache = field(init=False)

    def __post_init__(self) -> None:
        max_bytes = self.room * (100 + OVERHEAD_BYTES)
        self.cache = LocalCache(max_bytes, make_policy(self.policy), lambda: self.now_s)

    def put(self, *keys: bytes, tenant_id: int = 1) -> None:
        for key in keys:
            self.cache.put(key, entry(tenant_id=tenant_id), TTL_S)

    def held(self, *keys: bytes) -> set[bytes]:
        return {key for key in keys if self.cache.get(key) is not None}


def test_an_answer_is_found_until_its_time_is_up() -> None:
    rig = Rig(3)
    rig.put(b"a")
    rig.now_s = TTL_S - 0.1
    assert rig.cache.get(b"a") == entry()
    rig.now_s = TTL_S
    assert rig.cache.get(b"a") is None
    assert (rig.cache.hits, rig.cache.misses, rig.cache.entries, rig.cache.bytes) == (1, 1, 0, 0)


def test_the_policy_says_what_goes() -> None:
    rig = Rig(2)
    rig.put(b"a", b"b")
    rig.cache.get(b"a")
    rig.put(b"c")

    assert rig.held(b"a", b"b", b"c") == {b"a", b"c"}
    assert rig.cache.evictions == 1


def test_an_answer_in_place_of_another_keeps_the_place_in_the_order() -> None:
    rig = Rig(2, "lru-2")
    rig.put(b"a")
    rig.cache.get(b"a")
    rig.put(b"b")
    rig.cache.put(b"a", entry(50), TTL_S)
    rig.put(b"c")

    assert rig.held(b"a", b"b", b"c") == {b"a", b"c"}


def test_an_answer_larger_than_all_room_is_not_held_and_its_older_one_is_gone() -> None:
    rig = Rig(2)
    rig.put(b"a", b"b")
    rig.cache.put(b"a", entry(rig.cache.max_bytes), TTL_S)

    assert rig.held(b"a", b"b") == {b"b"}


def test_pinned_answers_stay_whatever_comes() -> None:
    rig = Rig(4)
    rig.put(b"a")
    rig.cache.pin(frozenset({b"a", b"b"}))
    rig.put(b"b")
    rig.put(*(b"%d" % number for number in range(50)))

    assert rig.held(b"a", b"b") == {b"a", b"b"}


def test_pinned_answers_take_half_of_the_room_at_most() -> None:
    rig = Rig(4)
    many = [b"p%d" % number for number in range(10)]
    rig.cache.pin(frozenset(many))
    rig.put(*many)
    rig.put(b"x", b"y")

    assert rig.held(b"x", b"y") == {b"x", b"y"}
    assert len(rig.held(*many)) == 2


def test_what_is_pinned_no_longer_goes_like_all_others() -> None:
    rig = Rig(2)
    rig.put(b"a")
    rig.cache.pin(frozenset({b"a"}))
    rig.cache.pin(frozenset())
    rig.put(b"b", b"c")

    assert rig.held(b"a", b"b", b"c") == {b"b", b"c"}


def test_a_tenant_is_dropped_whole() -> None:
    rig = Rig(9)
    rig.put(b"a", b"b", tenant_id=1)
    rig.put(b"c", tenant_id=2)
    rig.cache.pin(frozenset({b"a"}))
    rig.put(b"b", tenant_id=2)

    assert rig.cache.drop_tenant(1) == 1
    assert rig.cache.drop_tenant(1) == 0
    assert rig.held(b"a", b"b", b"c") == {b"b", b"c"}
    assert rig.cache.drop_tenant(2) == 2
    assert rig.cache.bytes == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_change_of_policy_drops_nothing(name: str) -> None:
    rig = Rig(4)
    keys = [b"%d" % number for number in range(4)]
    rig.put(*keys)
    rig.cache.pin(frozenset({b"1"}))
    rig.cache.change_policy(name)

    assert rig.held(*keys) == set(keys)
    rig.put(*(b"x%d" % number for number in range(9)))
    assert b"1" in rig.held(*keys)
    assert rig.cache.entries == 4


def test_the_slowest_eviction_is_told_once() -> None:
    ticks = iter(number * 0.25 for number in range(100))
    cache = LocalCache(100 + OVERHEAD_BYTES, make_policy("lru"), lambda: next(ticks))
    cache.put(b"a", entry(), TTL_S)
    assert cache.take_slowest_eviction_s() == 0
    cache.put(b"b", entry(), TTL_S)

    assert cache.take_slowest_eviction_s() == 0.25
    assert cache.take_slowest_eviction_s() == 0


STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9), st.integers(50, 2_500), st.integers(1, 3)),
    st.tuples(st.just("get"), st.integers(0, 9), st.just(0), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 9), st.just(0), st.just(0)),
    st.tuples(st.just("drop_tenant"), st.just(0), st.just(0), st.integers(1, 3)),
    st.tuples(st.just("pin"), st.integers(0, 9), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("change"), st.integers(0, len(NAMES) - 1), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 40), st.just(0), st.just(0)),
)


@given(steps=st.lists(STEPS, max_size=80), name=st.sampled_from(NAMES))
def test_whatever_happens_it_gives_the_latest_answer_or_none_and_stays_in_its_bytes(
    steps: list[tuple[str, int, int, int]], name: str
) -> None:
    rig = Rig(5, name)
    truth: dict[bytes, tuple[Entry, float]] = {}
    for what, number, other, tenant_id in steps:
        key = b"%d" % number
        if what == "put":
            made = entry(other, tenant_id)
            rig.cache.put(key, made, TTL_S)
            truth[key] = made, rig.now_s + TTL_S
        elif what == "get":
            found = rig.cache.get(key)
            assert found is None or (found is truth[key][0] and rig.now_s < truth[key][1])
        elif what == "drop":
            rig.cache.drop(key)
            truth.pop(key, None)
        elif what == "drop_tenant":
            rig.cache.drop_tenant(tenant_id)
            truth = {key: kept for key, kept in truth.items() if kept[0].tenant_id != tenant_id}
        elif what == "pin":
            rig.cache.pin(frozenset({key, b"%d" % other}))
        elif what == "change":
            rig.cache.change_policy(NAMES[number])
        else:
            rig.now_s += number
        assert 0 <= rig.cache.bytes <= rig.cache.max_bytes
    still = {key for key in (b"%d" % number for number in range(10)) if rig.cache.get(key) is not None}
    assert still <= set(truth)
    assert rig.cache.entries == len(still)
    assert rig.cache.bytes == sum(truth[key][0].size + OVERHEAD_BYTES for key in still)
