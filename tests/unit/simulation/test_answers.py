"""Answers follow from the question alone; stop strings and continuation cut them at the right character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.simulation.answers import (
    Answer,
    apply_stops,
    big_tokens,
    multibyte_tokens,
    natural_length,
    question_key,
    resume,
    words,
)

KEY = question_key(0, b"question", None, "0")
TOKENS = st.lists(st.text(alphabet="abc ", min_size=1, max_size=4), min_size=1, max_size=12)


def plain(tokens: list[str], reason: str = "stop") -> Answer:
    return Answer(tokens, tokens, reason)


def test_the_key_tells_apart_everything_that_decides() -> None:
    others = {
        question_key(1, b"question", None, "0"),
        question_key(0, b"other", None, "0"),
        question_key(0, b"question", 0, "0"),
        question_key(0, b"question", None, "1"),
    }

    assert len(others | {KEY}) == 5


def test_a_shorter_answer_is_a_prefix_of_a_longer_one() -> None:
    assert words(KEY, 40)[:12] == words(KEY, 12)


def test_natural_lengths_are_mostly_short() -> None:
    lengths = sorted(natural_length(question_key(0, str(index).encode(), None, "0")) for index in range(500))

    assert lengths[0] >= 8
    assert lengths[-1] <= 64
    assert lengths[250] < 36


@given(st.integers(1, 60))
def test_multibyte_characters_come_whole(count: int) -> None:
    tokens = multibyte_tokens(count)

    assert len(tokens) == count
    assert "�" not in "".join(tokens)
    assert len("".join(tokens).encode()) >= 2 * count


@given(st.integers(1, 3_000_000), st.integers(1, 50))
def test_big_answers_have_the_exact_size(size: int, most: int) -> None:
    tokens = big_tokens(KEY, size, most)

    assert sum(len(token.encode()) for token in tokens) == size
    assert len(tokens) <= most


@pytest.mark.parametrize(
    ("stops", "kept", "count"),
    [(["b c"], "a ", 3), (["c", "b"], "a ", 2), (["nowhere"], "a b c d", 4), (["a"], "", 1)],
)
def test_the_first_stop_string_ends_the_answer(stops: list[str], kept: str, count: int) -> None:
    answer = apply_stops(plain(["a", " b", " c", " d"], "length"), stops, 0, keep_stop=False)

    assert "".join(answer.emitted) == kept
    assert len(answer.tokens) == count


def test_a_stop_string_can_be_kept() -> None:
    answer = apply_stops(plain(["a", " b", " c"]), ["b"], 0, keep_stop=True)

    assert "".join(answer.emitted) == "a b"


def test_stop_strings_are_not_searched_in_the_least_tokens() -> None:
    answer = apply_stops(plain(["a", " b", " a", " c"]), ["a"], 2, keep_stop=False)

    assert "".join(answer.emitted) == "a b "


@given(TOKENS, st.lists(st.text(alphabet="abc ", min_size=1, max_size=3), min_size=1, max_size=3))
def test_nothing_of_a_stop_string_is_ever_delivered(tokens: list[str], stops: list[str]) -> None:
    answer = apply_stops(plain(tokens), stops, 0, keep_stop=False)
    text = "".join(answer.emitted)

    assert len(answer.emitted) == len(answer.tokens)
    assert "".join(tokens).startswith(text)
    assert not any(stop in text for stop in stops)


@given(TOKENS, st.data())
def test_an_answer_resumes_at_any_character(tokens: list[str], data: st.DataObject) -> None:
    answer = apply_stops(plain(tokens), ["b a"], 0, keep_stop=False)
    text = "".join(answer.emitted)
    cut = data.draw(st.integers(0, len(text)))
    rest = resume(answer, text[:cut], 0)

    assert text[:cut] + "".join(rest.emitted[rest.start :]) == text
    assert 0 <= rest.start < len(rest.tokens) == len(answer.tokens)
    assert rest.finish_reason == answer.finish_reason


@given(st.integers(1, 40), st.data())
def test_an_answer_resumes_after_any_token_with_what_was_held_back(count: int, data: st.DataObject) -> None:
    tokens = multibyte_tokens(count)
    answer = apply_stops(plain(tokens), ["zzz"], 0, keep_stop=False)
    delivered = data.draw(st.integers(0, count))
    told = "".join(answer.emitted[:delivered])
    rest = resume(answer, told, delivered, exact=True)

    assert told + "".join(rest.emitted[rest.start :]) == "".join(tokens)
    assert rest.start == min(delivered, count - 1)


def test_another_answer_resumes_by_the_number_of_tokens() -> None:
    rest = resume(plain(["a", " b", " c"]), "something else", 2)

    assert rest.emitted[rest.start :] == [" c"]
