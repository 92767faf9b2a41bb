"""How long an answer may be that its request does not bound."""

import json

import pytest

from domain.limits import Level, Limit
from gateway.answer_bound import counts_answers, longest_answer, with_longest_answer

CONTEXT = 1000


def limit(name: str, cap: int) -> Limit:
    return Limit(Level.TENANT, name, cap)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("tokens_per_minute", True),
        ("output_tokens_per_day", True),
        ("tokens_per_month", True),
        ("cost_per_month", True),
        ("requests_per_minute", False),
        ("input_tokens_per_day", False),
        ("max_concurrent", False),
    ],
)
def test_only_limits_of_answers_and_cost_depend_on_them(name: str, counts: bool) -> None:
    assert counts_answers([limit("requests_per_day", 5), limit(name, 5)]) is counts


def test_wide_limits_leave_what_the_context_has_room_for() -> None:
    assert longest_answer([limit("tokens_per_minute", 10**9)], CONTEXT, 100, 1) == 900


def test_the_smallest_limit_bounds_the_answer() -> None:
    limits = [limit("tokens_per_minute", 500), limit("output_tokens_per_day", 300)]
    assert longest_answer(limits, CONTEXT, 100, 1) == 300
    assert longest_answer(limits, CONTEXT, 300, 1) == 200


def test_several_answers_share_it() -> None:
    assert longest_answer([limit("output_tokens_per_minute", 300)], CONTEXT, 100, 4) == 75


def test_a_prompt_beyond_the_limit_still_asks_for_a_token_and_is_refused_by_the_limit() -> None:
    assert longest_answer([limit("tokens_per_minute", 50)], CONTEXT, 100, 1) == 1


@pytest.mark.parametrize("body", [b'{"model":"m"}', b' {"model": "m", "max_completion_tokens": null} \n'])
def test_the_engine_is_told(body: bytes) -> None:
    assert json.loads(with_longest_answer(body, 7)) == {"model": "m", "max_completion_tokens": 7}
