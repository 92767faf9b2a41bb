"""Names of prefixes: equal exactly as far as the prompts are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from domain import prefix

texts = st.binary(min_size=0, max_size=5000)


def shared(one: bytes, two: bytes) -> int:
    """Hashes that two prompts share at their beginning."""
    pairs = zip(*(_split(text) for text in (one, two)), strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)) // prefix.HASH_BYTES)


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[start : start + prefix.HASH_BYTES] for start in range(0, len(hashes), prefix.HASH_BYTES)]


@given(texts, st.integers(0, 5000), st.binary(min_size=1, max_size=600))
def test_two_prompts_share_the_hashes_of_the_blocks_that_are_equal(text: bytes, cut: int, tail: bytes) -> None:
    other = text[:cut] + tail
    equal = next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    assert shared(prefix.prefix_hashes([text]), prefix.prefix_hashes([other])) == equal // prefix.FINE_BYTES


@given(texts, st.lists(st.integers(0, 5000), max_size=5))
def test_it_does_not_matter_how_a_prompt_is_cut_into_parts(text: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[start:end] for start, end in pairwise(edges)]
    assert prefix.prefix_hashes(parts) == prefix.prefix_hashes([text])


def test_the_number_of_hashes_is_bounded_and_edges_grow() -> None:
    def count(size: int) -> int:
        return len(prefix.prefix_hashes([b"x" * size])) // prefix.HASH_BYTES

    assert [count(size) for size in (255, 256, 16_384, 17_407, 17_408, 81_920, 10_000_000)] == [
        0,
        1,
        64,
        64,
        65,
        128,
        128,
    ]


@given(texts)
def test_tenants_do_not_share_names(text: bytes) -> None:
    hashes = prefix.prefix_hashes([text])
    mine, yours = prefix.own(hashes, "ab" * 16), prefix.own(hashes, "cd" * 16)
    assert shared(mine, yours) == 0
    assert len(mine) == len(hashes)
    assert prefix.own(hashes, "ab" * 16) == mine
