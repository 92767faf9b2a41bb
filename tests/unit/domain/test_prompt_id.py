"""Ids of stored prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.prompt_id import RANDOM_BYTES, is_well_formed, made_at_ms, make_id

TIMES = st.integers(0, 2**48 - 1)
CHANCE = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
GOOD = make_id(1_790_000_000_000, bytes(range(RANDOM_BYTES)))


@given(TIMES, CHANCE)
def test_an_id_says_when_it_was_made(at_ms: int, chance: bytes) -> None:
    public_id = make_id(at_ms, chance)

    assert is_well_formed(public_id)
    assert made_at_ms(public_id) == at_ms
    assert len(public_id) == 33


@given(TIMES, CHANCE, TIMES, CHANCE)
def test_ids_differ_unless_time_and_chance_are_equal(at: int, chance: bytes, later: int, other: bytes) -> None:
    assert (make_id(at, chance) == make_id(later, other)) == ((at, chance) == (later, other))


@given(TIMES, TIMES, CHANCE, CHANCE)
def test_later_ids_sort_after_earlier_ones(first: int, second: int, chance: bytes, other: bytes) -> None:
    if first < second:
        assert make_id(first, chance) < make_id(second, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prompt_",
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD,
        GOOD.replace("prompt_", "file_"),
        GOOD[:-1] + "u",
        GOOD[:-1] + "l",
        "prompt_8" + GOOD[8:],
        GOOD[:-1] + "\u0663",
    ],
)
def test_what_is_written_otherwise_is_no_id(text: str) -> None:
    assert not is_well_formed(text)
