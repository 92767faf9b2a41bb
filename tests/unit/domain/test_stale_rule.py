"""When the last good answer may stand in for an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rate import Rate
from domain.stale import FAILURES, is_recent, may_stand_in
from gateway.errors import TABLE, Refusal

DAY_S = 86_400


@given(st.integers(100, 499), st.sampled_from(list(Refusal)))
def test_nothing_stands_in_for_what_the_client_did(status: int, reason: Refusal) -> None:
    assert not may_stand_in(status, reason.value, DAY_S)


@pytest.mark.parametrize("reason", sorted(FAILURES))
def test_every_failure_is_a_refusal_of_this_side(reason: str) -> None:
    entry = TABLE[Refusal(reason)]
    assert entry.status >= 500
    assert may_stand_in(entry.status, reason, DAY_S)


def test_a_plan_without_stale_answers_gets_the_error() -> None:
    assert not may_stand_in(503, "no_backend", 0)


def test_an_answer_is_too_old_after_the_plan_s_time() -> None:
    assert is_recent(5_000, 5)
    assert not is_recent(5_001, 5)
    assert is_recent(-1, 5)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 2)), max_size=200), st.floats(0.5, 20))
def test_a_rate_lets_through_no_more_than_it_says(steps: list[tuple[int, float]], per_s: float) -> None:
    rate, now_s, taken = Rate(per_s), 0.0, dict.fromkeys(range(3), 0)
    for owner, wait_s in steps:
        now_s += wait_s
        taken[owner] += rate.take(owner, now_s)
    assert all(count <= max(1.0, per_s) + per_s * now_s + 1e-6 for count in taken.values())


def test_a_rate_lets_a_new_owner_in_whatever_others_did() -> None:
    rate = Rate(2.0)
    assert [rate.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert rate.take("b", 0.0)
    assert rate.take("a", 0.5)


def test_a_rate_remembers_a_bounded_number_of_owners() -> None:
    rate = Rate(1.0, max_owners=2)
    assert all(rate.take(owner, 0.0) for owner in range(5))
    assert not rate.take(4, 0.0)
    assert rate.take(0, 0.0)  # forgotten meanwhile
