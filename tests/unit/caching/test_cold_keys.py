"""Keys that keep being missed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from caching.filters.cold import ColdKeys
from caching.filters.cuckoo import CuckooFilter


def test_a_key_is_due_at_its_third_miss_and_no_sooner() -> None:
    cold = ColdKeys()

    assert [cold.missed("a") for _ in range(4)] == [False, False, True, True]
    assert "a" in cold


def test_a_key_that_left_begins_anew() -> None:
    cold = ColdKeys()
    for _ in range(3):
        cold.missed("a")
    cold.leave("a")

    assert "a" not in cold
    assert len(cold) == 0
    assert [cold.missed("a") for _ in range(3)] == [False, False, True]


def test_a_key_that_was_never_missed_takes_nothing_out() -> None:
    cold = ColdKeys()
    for number in range(500):
        cold.missed(f"a{number}")
    for number in range(50_000):
        cold.leave(f"b{number}")

    assert all(f"a{number}" in cold for number in range(500))


def test_a_key_the_index_has_forgotten_is_remembered_by_the_filter() -> None:
    cold = ColdKeys(recent=10)
    cold.missed("a")
    for number in range(10):
        cold.missed(f"b{number}")

    assert [cold.missed("a"), cold.missed("a")] == [False, True]


def test_what_the_index_does_not_confirm_stays_in_the_filter() -> None:
    cold = ColdKeys(recent=10)
    cold.missed("a")
    for number in range(10):
        cold.missed(f"b{number}")
    cold.missed("a")
    cold.leave("a")

    assert "a" in cold


def test_a_full_filter_is_made_anew_from_the_recent_ones() -> None:
    cold = ColdKeys(capacity=1_000, recent=10)
    for number in range(1_000):
        cold.missed(f"a{number}")
    assert cold.rebuilds == 0
    cold.missed("b")

    assert cold.rebuilds == 1
    assert len(cold) == 11
    assert all(f"a{number}" in cold for number in range(990, 1_000))
    assert sum(f"a{number}" in cold for number in range(990)) < 50


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=200), st.integers(1, 40), st.integers(20, 60))
def test_no_key_is_lost_by_what_happens_to_others(steps: list[tuple[bool, int]], recent: int, capacity: int) -> None:
    cold = ColdKeys(capacity, recent)
    latest: list[str] = []
    for misses, number in steps:
        key = f"k{number}"
        latest = [other for other in latest if other != key]
        if misses:
            cold.missed(key)
            latest = [*latest, key][-recent:]
        else:
            cold.leave(key)
        assert all(other in cold for other in latest)


def test_absent_keys_are_seldom_taken_for_present() -> None:
    marks = CuckooFilter(10_000)
    for number in range(10_000):
        marks.add(f"a{number}")

    assert marks.full
    assert all(f"a{number}" in marks for number in range(10_000))
    assert sum(f"b{number}" in marks for number in range(10_000)) < 100
