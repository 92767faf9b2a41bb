"""Answers are compared token for token; near-ties are told from real differences."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.sameness import Token, compare, cosine

TOLERANCE = 0.001


def token(text: str, logprob: float = -0.5, **candidates: float) -> Token:
    return Token(-1, text, logprob, {text: logprob, **candidates})


def test_equal_answers_have_no_difference_and_tell_the_largest_gap() -> None:
    found = compare([token("a", -0.5), token("b", -0.7)], [token("a", -0.5001), token("b", -0.7004)], TOLERANCE)

    assert found.difference is None
    assert (found.tokens, found.same_tokens) == (2, 2)
    assert found.logprob_gap == pytest.approx(0.0004)


def test_the_first_difference_is_told_with_its_place_and_the_gap_alone() -> None:
    alone = [token("a"), token("b", -0.5, c=-1.5), token("d")]
    batched = [token("a"), token("c", -0.1), token("x")]
    difference = compare(alone, batched, TOLERANCE).difference

    assert difference is not None
    assert (difference.place, difference.alone, difference.batched) == (1, "b", "c")
    assert difference.gap_nats == pytest.approx(1.0)
    assert not difference.is_near_tie


@pytest.mark.parametrize(("gap", "near"), [(0.0, True), (2 * TOLERANCE, True), (2.1 * TOLERANCE, False)])
def test_a_gap_that_two_roundings_may_close_is_a_near_tie(gap: float, near: bool) -> None:
    difference = compare([token("b", 0.0, c=-gap)], [token("c")], TOLERANCE).difference

    assert difference is not None
    assert difference.is_near_tie is near


def test_a_token_that_was_no_candidate_is_a_real_difference() -> None:
    difference = compare([token("b")], [token("never")], TOLERANCE).difference

    assert difference is not None
    assert difference.gap_nats is None
    assert not difference.is_near_tie


@pytest.mark.parametrize(("alone", "batched", "sides"), [("ab", "a", ("b", None)), ("a", "ab", (None, "b"))])
def test_an_answer_that_ends_early_differs_there(alone: str, batched: str, sides: tuple[str | None, ...]) -> None:
    difference = compare([token(text) for text in alone], [token(text) for text in batched], TOLERANCE).difference

    assert difference is not None
    assert (difference.place, difference.alone, difference.batched) == (1, *sides)


def test_tokens_of_one_spelling_and_different_numbers_differ() -> None:
    one, other = Token(7, "�", -1.0, {"�": -1.0}), Token(8, "�", -1.0, {"�": -1.0})

    assert compare([one], [other], TOLERANCE).difference is not None


def test_a_likelihood_that_is_not_a_number_is_infinitely_far() -> None:
    assert compare([token("a", math.nan)], [token("a")], TOLERANCE).logprob_gap == math.inf


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(-5, 0)), max_size=8))
def test_an_answer_equals_itself(rows: list[tuple[str, float]]) -> None:
    answer = [token(text, logprob) for text, logprob in rows]
    found = compare(answer, answer, 0.0)

    assert found.difference is None
    assert found.logprob_gap == 0
    assert found.same_tokens == len(rows)


@given(st.lists(st.floats(-10, 10).filter(lambda value: abs(value) > 1e-3), min_size=1, max_size=6), st.floats(0.1, 9))
def test_the_cosine_of_a_vector_with_its_multiples_is_one(vector: list[float], factor: float) -> None:
    assert cosine(vector, [factor * value for value in vector]) == pytest.approx(1)
    assert cosine(vector, [-value for value in vector]) == pytest.approx(-1)


def test_the_cosine_of_unlike_or_empty_vectors() -> None:
    assert cosine([1, 0], [0, 2]) == 0
    assert math.isnan(cosine([0, 0], [1, 1]))
    with pytest.raises(ValueError, match=r"shorter|longer"):
        cosine([1, 2], [1])
