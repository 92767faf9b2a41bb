"""Ghost caches say what each policy would hit; the choice by them follows what lasts and no chance."""

import itertools
import random
from hashlib import blake2b

import pytest

from domain.eviction.best import best_hits
from domain.eviction.chooser import Chooser
from domain.eviction.ghost import Ghosts
from domain.eviction.k_rule import Seen
from domain.eviction.named import NAMES, make_policy
from domain.eviction.tuning import BY_GHOSTS, BY_OPERATOR, FIRST, GHOST, Tuning
from tests.unit.domain.test_eviction_policies import Cache

NOTHING = Seen(None, None, 0.0, 0.0)


def key(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "little"), digest_size=16).digest()


def skewed(requests: int, keys: int, seed: int = 1) -> list[bytes]:
    """Some keys much more often than others."""
    draw = random.Random(seed)
    weights = [1 / (rank + 1) ** 0.8 for rank in range(keys)]
    return [key(number) for number in draw.choices(range(keys), weights, k=requests)]


def loop(requests: int, keys: int) -> list[bytes]:
    """All keys in turn, for ever: LRU hits none of them in a cache that is smaller."""
    return [key(number % keys) for number in range(requests)]


def scan(requests: int) -> list[bytes]:
    """Ten keys again and again between keys that come once: LRU keeps the wrong ones."""
    return [key(number // 8 % 10 if number % 8 == 0 else 1_000 + number) for number in range(requests)]


def test_a_small_cache_is_followed_whole() -> None:
    asked = skewed(3_000, 200)
    ghosts = Ghosts(20)
    caches = {name: Cache(make_policy(name), 20) for name in NAMES}
    for one in asked:
        ghosts.ask(one)
        for cache in caches.values():
            cache.ask(one)

    assert ghosts.share == 1
    assert ghosts.misses() == {name: len(asked) - cache.hits for name, cache in caches.items()}
    assert ghosts.firsts == len(set(asked))
    assert ghosts.best_possible() == best_hits(asked, 20) / len(asked)


def test_a_sample_of_a_large_cache_tells_its_hit_rate() -> None:
    asked = skewed(20_000, 10_000)
    whole = Cache(make_policy("lru-2"), 1_000)
    ghosts = Ghosts(1_000, ["lru-2"], ghost_keys=250)
    for one in asked:
        whole.ask(one)
        ghosts.ask(one)

    assert ghosts.share == 1 / 4
    assert ghosts.misses()["lru-2"] == pytest.approx(len(asked) - whole.hits, rel=0.1)
    assert ghosts.firsts == pytest.approx(len(set(asked)), rel=0.1)


def test_what_is_long_ago_counts_little() -> None:
    ghosts = Ghosts(50)
    for one in loop(20_000, 60):
        ghosts.ask(one)
    assert ghosts.rates()["lru"] < 0.01
    for one in loop(20_000, 40):
        ghosts.ask(one)

    assert ghosts.rates()["lru"] > 0.9
    assert ghosts.ceiling > 0.9


def test_a_cache_that_grows_and_shrinks_is_sampled_by_what_it_holds() -> None:
    ghosts = Ghosts(10, ghost_keys=100)
    for capacity, share in ((100, 1), (101, 1 / 2), (99, 1 / 2), (49, 1), (100, 1), (1_000, 1 / 16), (0, 1)):
        ghosts.resize(capacity)
        for one in skewed(500, 300):
            ghosts.ask(one)
        assert ghosts.share == share
        assert ghosts.ghost_capacity <= 100
        assert all(len(ghost._held) <= ghosts.ghost_capacity for ghost in ghosts._ghosts.values())
    assert ghosts.capacity == 1


def test_memory_is_bounded_whatever_comes() -> None:
    ghosts = Ghosts(1_000_000, ghost_keys=64)
    for number in range(100_000):
        ghosts.ask(key(number))
    kept = [len(ghost._held) for ghost in ghosts._ghosts.values()]

    assert max(kept) <= 64
    assert ghosts.sampled < 100


def choose(asked: list[bytes], current: str, capacity: int = 50) -> list[str]:
    """What is chosen at each look."""
    ghosts = Ghosts(capacity)
    chooser = Chooser(ghosts)
    chosen = []
    for place, one in enumerate(asked):
        ghosts.ask(one)
        if place % 50 == 49:
            current = chooser.look(current)
            chosen.append(current)
    return chosen


def test_a_policy_that_hits_nothing_is_left() -> None:
    assert choose(scan(5_000), "lru")[-1] != "lru"


def test_a_lead_that_is_no_lead_changes_nothing() -> None:
    assert set(choose(loop(5_000, 40), "arc")) == {"arc"}


def test_it_does_not_go_to_and_fro() -> None:
    chosen = choose(skewed(20_000, 500), "lru")

    assert sum(one != other for one, other in itertools.pairwise(chosen)) <= 4


def test_the_tuning_follows_the_ghosts_until_an_operator_fixes_it() -> None:
    ghosts = Ghosts(50)
    tuning = Tuning(GHOST, ghosts)
    assert tuning.policy == FIRST
    tuning.fix("lru")
    decision = tuning.look(NOTHING, 0)
    assert decision is not None
    assert (decision.before, decision.after, decision.why) == (FIRST, "lru", BY_OPERATOR)
    for one in scan(5_000):
        ghosts.ask(one)
    assert tuning.look(NOTHING, 1) is None
    assert tuning.mode == "lru"

    tuning.fix("")
    decisions = []
    for place, one in enumerate(scan(5_000)):
        ghosts.ask(one)
        if place % 100 == 99:
            decisions.append(tuning.look(NOTHING, place))
    decision = next(decision for decision in decisions if decision is not None)
    assert (decision.before, decision.why) == ("lru", BY_GHOSTS)
    assert tuning.mode == GHOST


def test_an_operator_may_choose_the_rule_too_and_nonsense_is_no_choice() -> None:
    tuning = Tuning("arc", Ghosts(50))
    tuning.fix("w11")
    tuning.look(Seen(1.0, 1.0, 1.0, 0.0), 0)
    assert (tuning.mode, tuning.policy) == ("w11", "lru-5")
    tuning.fix("lru-99")
    tuning.look(NOTHING, 1)

    assert (tuning.mode, tuning.policy) == ("arc", "arc")


def test_a_slow_eviction_is_told_while_the_rule_decides() -> None:
    tuning = Tuning("w11", Ghosts(50))
    tuning.look(Seen(1.0, 1.0, 1.0, 0.5), 0)

    assert tuning.is_paused(1)
    assert tuning.policy == "lru-2"
    tuning.fix("mq")
    assert not tuning.is_paused(1)
