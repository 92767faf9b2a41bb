"""The fairness benchmark counts service where and when it was given, and judges it by the weights."""

import pytest

from bench.fair_share import CASES, Party, calls, jain_index, service, verdict
from bench.usage import Served

EVEN = (Party("a", 1, 10, 1), Party("b", 1, 10, 1))
THREE_TO_ONE = (Party("a", 3, 10, 1), Party("b", 1, 10, 1))


def served(
    tenant: str = "a", *, claimed_s: float = 0, first_token_s: float | None = None, finished_s: float = 10
) -> Served:
    return Served(tenant, "p1", "worker-1", 100, 0, 50, claimed_s, claimed_s, first_token_s, finished_s)


def test_jain_index_is_one_when_all_are_equal() -> None:
    assert jain_index([7.0, 7.0, 7.0]) == pytest.approx(1)


def test_jain_index_is_one_part_when_one_has_everything() -> None:
    assert jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_jain_index_of_no_service_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no service"):
        jain_index([0.0, 0.0])


def test_an_answer_token_costs_two_tokens_of_the_prompt_and_a_cached_one_a_tenth() -> None:
    row = Served("a", "p1", "worker-1", 100, 40, 50, 0, 0, 5, 10)
    assert row.cost == pytest.approx(60 + 4 + 100)


def test_a_request_inside_the_interval_counts_wholly() -> None:
    assert service([served()], 0, 10) == {"a": pytest.approx(200)}


def test_a_request_that_reaches_over_the_end_counts_for_its_part() -> None:
    assert service([served()], 0, 5) == {"a": pytest.approx(100)}


def test_the_prompt_counts_until_the_first_token_and_the_answer_after_it() -> None:
    row = served(first_token_s=2)
    assert row.cost_within(0, 2) == pytest.approx(100)
    assert row.cost_within(2, 6) == pytest.approx(50)


def test_a_request_outside_the_interval_counts_nothing() -> None:
    assert service([served()], 20, 30) == {"a": 0}


def test_a_request_that_took_no_time_counts_once() -> None:
    row = served(claimed_s=5, finished_s=5)
    assert row.cost_within(0, 5) + row.cost_within(5, 9) == pytest.approx(row.cost)


def test_equal_service_of_equal_weights_meets_the_goal() -> None:
    assert verdict(EVEN, {"a": 100.0, "b": 100.0})["goal met"]


def test_a_tenant_that_gets_a_quarter_of_the_others_service_misses_the_goal() -> None:
    assert not verdict(EVEN, {"a": 100.0, "b": 25.0})["goal met"]


@pytest.mark.parametrize(("ratio", "is_met"), [(3.0, True), (2.86, True), (3.14, True), (2.8, False), (3.2, False)])
def test_weights_of_three_to_one_ask_for_three_times_the_service_within_five_percent(
    ratio: float, is_met: bool
) -> None:
    assert verdict(THREE_TO_ONE, {"a": ratio, "b": 1.0})["goal met"] is is_met


def test_no_two_requests_of_a_tenant_share_a_block_of_their_prompts() -> None:
    stream = calls(CASES["equal weights"][1], "sk-1", 1)
    bodies = [next(stream).body for _ in range(20)]
    starts = {body[body.index(b'"content":"') :][:40] for body in bodies}
    assert len(starts) == len(bodies)
