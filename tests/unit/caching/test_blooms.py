"""What every library behind the port does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caching.filters.bloom import LIBRARIES, from_bytes, make
from caching.filters.digest import DIGEST_BYTES
from domain.filter_size import PAPER, FilterSize, false_positives_with, size_for

SMALL = FilterSize(4_096, 5)
DIGESTS = st.sets(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES), max_size=400)

pytestmark = pytest.mark.parametrize("library", LIBRARIES)


@given(digests=DIGESTS)
def test_what_was_added_is_never_denied_not_even_when_it_is_overfull(library: str, digests: set[bytes]) -> None:
    bloom = make(library, SMALL)
    bloom.add(digests)
    assert all(digest in bloom for digest in digests)


@given(digests=DIGESTS, more=DIGESTS)
def test_packed_and_unpacked_it_says_the_same_and_goes_on(library: str, digests: set[bytes], more: set[bytes]) -> None:
    bloom = make(library, SMALL)
    bloom.add(digests)
    again = from_bytes(library, bloom.size, bloom.to_bytes())
    assert again.to_bytes() == bloom.to_bytes()
    bloom.add(more)
    again.add(more)
    assert again.to_bytes() == bloom.to_bytes()
    assert all(digest in again for digest in digests | more)


@pytest.mark.parametrize("size", [SMALL, PAPER, FilterSize(2**20, 7), FilterSize(1_001, 1), size_for(50_000, 0.01)])
def test_it_is_as_large_as_asked_for(library: str, size: FilterSize) -> None:
    made = make(library, size).size
    assert made.hashes == size.hashes
    assert abs(made.bits - size.bits) <= 8 + 2 * size.hashes


@pytest.mark.parametrize("size", [SMALL, PAPER])
def test_each_key_sets_so_many_bits(library: str, size: FilterSize) -> None:
    bloom = make(library, size)
    bloom.add([_digests(1)[0]])
    assert size.hashes - 1 <= round(bloom.fill() * bloom.size.bits) <= size.hashes  # two may meet on one bit


@pytest.mark.parametrize("keys", [0, 2_000, 10_000, 40_000])
def test_fill_and_false_positives_are_those_of_the_formulas(library: str, keys: int) -> None:
    bloom = make(library, size_for(10_000, 0.02))
    inside, outside = _digests(keys), _digests(20_000, seed=2)
    bloom.add(inside)
    expected = false_positives_with(bloom.size, keys)
    assert abs(bloom.fill() ** bloom.size.hashes - expected) <= 0.02
    let_through = sum(digest in bloom for digest in outside) / len(outside)
    # Far beyond its keys rbloom, whose bits of one key depend on each other a little, is better than the formula.
    assert let_through <= expected + 0.02
    assert keys > 10_000 or let_through >= expected - 0.02


def test_a_filter_of_another_size_is_refused(library: str) -> None:
    packed = make(library, FilterSize(8_192, 5)).to_bytes()
    with pytest.raises(ValueError, match="packed filter"):
        from_bytes(library, SMALL, packed)


def _digests(number: int, seed: int = 1) -> list[bytes]:
    chance = Random(seed)
    return [chance.randbytes(DIGEST_BYTES) for _ in range(number)]
