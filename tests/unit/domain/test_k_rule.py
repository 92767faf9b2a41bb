"""The rule of the watermark: which K, when it changes, and what holds it still."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.eviction.k_rule import MARGIN, PAUSE_S, REST_S, STEPS, KRule, Seen, Why

ALL_HIT = 1.0


def see(watermark: float | None, hit_rate: float | None = ALL_HIT, ceiling: float = 1.0, slow_s: float = 0.0) -> Seen:
    return Seen(watermark, hit_rate, ceiling, slow_s)


def first_k(seen: Seen, *, literal: bool = False) -> int:
    rule = KRule(literal=literal)
    rule.look(seen, 0)
    return rule.k


@pytest.mark.parametrize(("watermark", "k"), [(0.0, 2), (0.69, 2), (0.73, 3), (0.84, 3), (0.88, 5), (1.0, 5)])
def test_k_follows_the_watermark(watermark: float, k: int) -> None:
    assert first_k(see(watermark)) == k


@pytest.mark.parametrize(("watermark", "k"), [(0.5, 2), (0.8, 2), (1.0, 3)])
def test_a_low_hit_rate_lowers_k_by_one_step(watermark: float, k: int) -> None:
    assert first_k(see(watermark, hit_rate=0.84)) == k


def test_the_hit_rate_is_compared_with_the_ceiling_unless_taken_literally() -> None:
    near_the_ceiling = see(1.0, hit_rate=0.30, ceiling=0.33)

    assert first_k(near_the_ceiling) == 5
    assert first_k(near_the_ceiling, literal=True) == 3
    assert first_k(see(1.0, hit_rate=0.86, ceiling=0.9), literal=True) == 5


@pytest.mark.parametrize("seen", [see(1.0, hit_rate=None), see(1.0, hit_rate=0.0, ceiling=0.0)])
def test_without_anything_that_could_hit_the_watermark_alone_decides(seen: Seen) -> None:
    assert first_k(seen) == 5


def test_without_a_watermark_nothing_changes() -> None:
    assert first_k(see(None)) == STEPS[0]


def test_a_watermark_about_a_bound_does_not_move_k_to_and_fro() -> None:
    rule = KRule()
    changes = 0
    for number in range(200):
        watermark = 0.85 + (MARGIN / 2 if number % 2 else -MARGIN / 2)
        changes += rule.look(see(watermark), number * REST_S)

    assert changes == 1  # from 2 to 3, where it stays


def test_a_hit_rate_about_its_bound_does_not_either() -> None:
    rule = KRule()
    changes = 0
    for number in range(200):
        changes += rule.look(see(1.0, hit_rate=0.845 if number % 2 else 0.855), number * REST_S)

    assert changes <= 2


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 30)), max_size=60))
def test_two_changes_are_never_closer_than_the_rest(looks: list[tuple[float, float, float]]) -> None:
    rule, now, changed = KRule(), 0.0, float("-inf")
    for watermark, hit_rate, later in looks:
        now += later
        before = rule.k
        if rule.look(see(watermark, hit_rate), now):
            assert rule.k != before
            assert now - changed >= REST_S
            changed = now
        else:
            assert rule.k == before
        assert rule.k in STEPS


def test_a_slow_eviction_holds_k_for_the_length_of_the_window() -> None:
    rule = KRule()
    rule.look(see(0.5), 0)
    rule.look(see(1.0, slow_s=0.011), 100)
    assert rule.is_paused(100)
    assert not rule.look(see(1.0), 100 + PAUSE_S - 1)
    assert rule.k == 2

    assert rule.look(see(1.0), 100 + PAUSE_S)
    assert (rule.k, rule.why) == (5, Why.WATERMARK)


def test_an_eviction_of_ten_milliseconds_is_not_slow() -> None:
    rule = KRule()

    assert rule.look(see(1.0, slow_s=0.010), 0)


def test_it_says_why() -> None:
    rule = KRule()
    assert rule.why == Why.START
    rule.look(see(1.0), 0)
    assert rule.why == Why.WATERMARK
    rule.look(see(1.0, hit_rate=0.5), REST_S)
    assert (rule.k, rule.why) == (3, Why.HIT_RATE)
