import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.filter_size import (
    MAX_FILL,
    PAPER,
    FilterSize,
    false_positives_at,
    false_positives_with,
    grown,
    size_for,
)

KEYS = st.integers(1, 10**9)
SHARES = st.floats(1e-9, 0.5)


@given(KEYS, SHARES)
def test_a_filter_of_that_size_is_as_good_as_asked_for_when_it_is_full(keys: int, share: float) -> None:
    assert false_positives_with(size_for(keys, share), keys) <= share * 1.000_001


@given(st.integers(1_000, 10**9), SHARES)
def test_no_other_number_of_hashes_needs_much_less_room(keys: int, share: float) -> None:
    least = -keys * math.log(share) / math.log(2) ** 2  # with k no whole number
    assert least <= size_for(keys, share).bits <= least * 1.1 + 1


@given(st.integers(1_000, 10**9), st.floats(1e-9, 0.1))
def test_a_full_filter_of_that_size_is_about_half_full_of_ones(keys: int, share: float) -> None:
    size = size_for(keys, share)
    fill = -math.expm1(-size.hashes * keys / size.bits)
    assert abs(fill - MAX_FILL) < 0.1
    assert false_positives_at(fill, size.hashes) == pytest.approx(false_positives_with(size, keys))


@pytest.mark.parametrize(
    ("size", "share"),
    [(PAPER, 0.027), (FilterSize(2**20, 3), 0.838), (FilterSize(9_585_059, 7), 0.01)],
    ids=["the paper's", "2**20 bits", "1.2 MB"],
)
def test_known_sizes_with_a_million_keys(size: FilterSize, share: float) -> None:
    assert false_positives_with(size, 10**6) == pytest.approx(share, rel=0.03)


@given(st.integers(1, 10**7), st.integers(0, 10**9))
def test_the_next_filter_has_room_for_a_quarter_more_and_is_not_four_times_too_large(planned: int, keys: int) -> None:
    size = grown(planned, keys)
    assert keys * 5 / 4 <= size
    assert size == planned or size < keys * 2.5
