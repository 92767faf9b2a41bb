import math
from dataclasses import replace
from pathlib import Path

import pytest

from workers.engines.known_answer import (
    TOLERANCES,
    GreedyAnswer,
    Reference,
    WrongAnswer,
    check_finite,
    check_greedy,
    check_likelihood,
    load_reference,
    save_reference,
)

REFERENCE = Reference(
    made_by="a test",
    text_tokens=tuple(range(5)),
    nll=(1.0, 2.0, 3.0, 4.0),
    greedy=(GreedyAnswer("a prompt", (1, 2), (3, 4)),),
)


def test_a_reference_survives_the_disk(tmp_path: Path) -> None:
    save_reference(tmp_path / "reference.json", REFERENCE)

    assert load_reference(tmp_path / "reference.json") == REFERENCE


def test_no_file_is_no_reference(tmp_path: Path) -> None:
    assert load_reference(tmp_path / "reference.json") is None


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_the_reference_itself_passes(dtype: str) -> None:
    check_likelihood(REFERENCE, REFERENCE.nll, dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_a_shift_of_all_tokens_is_found_by_the_mean(dtype: str) -> None:
    shifted = [value + 2 * TOLERANCES[dtype].mean for value in REFERENCE.nll]

    with pytest.raises(WrongAnswer, match=r"mean NLL: expected 2\.5000 .* found 2\.5"):
        check_likelihood(REFERENCE, shifted, dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_errors_that_cancel_out_are_found_by_the_worst_token(dtype: str) -> None:
    wide = 2 * TOLERANCES[dtype].worst
    moved = [1.0 + wide, 2.0 - wide, 3.0, 4.0]

    with pytest.raises(WrongAnswer, match="NLL of token"):
        check_likelihood(REFERENCE, moved, dtype)


def test_float32_is_held_tighter_than_bfloat16() -> None:
    moved = [value + 0.01 for value in REFERENCE.nll]

    check_likelihood(REFERENCE, moved, "bfloat16")
    with pytest.raises(WrongAnswer):
        check_likelihood(REFERENCE, moved, "float32")


def test_too_few_values_are_found() -> None:
    with pytest.raises(WrongAnswer, match="expected the likelihood of 4 tokens, found 3"):
        check_likelihood(REFERENCE, REFERENCE.nll[:3], "float32")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_found(value: float) -> None:
    with pytest.raises(WrongAnswer, match="not finite at token 2"):
        check_finite([1.0, value])


def test_other_greedy_tokens_are_found_and_named() -> None:
    (answer,) = REFERENCE.greedy
    check_greedy(answer, [3, 4])

    with pytest.raises(WrongAnswer, match=r"'a prompt': expected \[3, 4\], found \[3\]"):
        check_greedy(answer, [3])
    with pytest.raises(WrongAnswer):
        check_greedy(replace(answer, tokens=(3, 5)), [3, 4])
