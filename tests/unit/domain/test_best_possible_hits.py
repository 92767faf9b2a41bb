"""The best possible number of hits: what an exhaustive search finds, and a bound of every policy."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from domain.eviction.best import best_hits
from domain.eviction.named import NAMES, make_policy
from tests.unit.domain.test_eviction_policies import Cache


def search(keys: tuple[int, ...], capacity: int) -> int:
    """Try everything."""

    @cache
    def from_here(place: int, held: frozenset[int]) -> int:
        if place == len(keys):
            return 0
        key = keys[place]
        if key in held:
            return 1 + from_here(place + 1, held)
        choices = [held, *(held - {gone} | {key} for gone in held)]
        if len(held) < capacity:
            choices.append(held | {key})
        return max(from_here(place + 1, choice) for choice in choices)

    return from_here(0, frozenset())


@given(keys=st.lists(st.integers(0, 4), max_size=12), capacity=st.integers(1, 3))
def test_it_is_what_an_exhaustive_search_finds(keys: list[int], capacity: int) -> None:
    assert best_hits(keys, capacity) == search(tuple(keys), capacity)


@given(keys=st.lists(st.integers(0, 11), max_size=150), capacity=st.integers(1, 6))
def test_no_policy_hits_more(keys: list[int], capacity: int) -> None:
    best = best_hits(keys, capacity)
    for name in NAMES:
        found = Cache(make_policy(name), capacity)
        for key in keys:
            found.ask(b"%d" % key)
        assert found.hits <= best
