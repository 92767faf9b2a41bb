"""The paged cache loses no block, and shares only what is equal."""

from hypothesis import given
from hypothesis import strategies as st

from domain.simulation.blocks import BlockPool, prefix_hashes

SALT = "a" * 32


def filled(pool: BlockPool, hashes: tuple[bytes, ...]) -> list[int]:
    blocks = pool.take(len(hashes))
    assert blocks is not None
    for block, content in zip(blocks, hashes, strict=True):
        pool.publish(block, content)
    return blocks


def test_equal_prefixes_have_equal_hashes_up_to_the_first_difference() -> None:
    first = prefix_hashes(b"aaaabbbbcccc", SALT, 4)
    second = prefix_hashes(b"aaaabbbbdddd", SALT, 4)

    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_hashes_depend_on_the_salt_and_on_what_stands_before() -> None:
    (alone,) = prefix_hashes(b"bbbb", SALT, 4)

    assert prefix_hashes(b"bbbb", "c" * 32, 4) != (alone,)
    assert prefix_hashes(b"aaaabbbb", SALT, 4)[1] != alone


def test_a_partial_block_has_no_hash() -> None:
    assert len(prefix_hashes(b"aaaabbb", SALT, 4)) == 1


def test_released_content_is_found_again() -> None:
    pool = BlockPool(4, 16)
    blocks = filled(pool, (b"one", b"two"))
    pool.release(blocks)

    assert pool.free == 4
    assert pool.share((b"one", b"two", b"three")) == blocks
    assert pool.free == 2


def test_the_tail_of_the_least_recently_used_prefix_is_evicted_first() -> None:
    pool = BlockPool(4, 16)
    pool.release(filled(pool, (b"old-1", b"old-2")))
    pool.release(filled(pool, (b"new-1", b"new-2")))

    assert pool.take(1) is not None
    assert len(pool.share((b"old-1", b"old-2"))) == 1
    assert len(pool.share((b"new-1", b"new-2"))) == 2


def test_shared_blocks_are_not_evicted() -> None:
    pool = BlockPool(2, 16)
    filled(pool, (b"held", b"too"))

    assert pool.take(1) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=60), st.integers(1, 12))
def test_blocks_are_neither_lost_nor_made(steps: list[tuple[int, int]], blocks: int) -> None:
    pool = BlockPool(blocks, 16)
    held: list[list[int]] = []
    for prompt, length in steps:
        if held and (prompt + length) % 3 == 0:
            pool.release(held.pop(0))
        else:
            _hold(pool, held, tuple(f"{prompt}/{index}".encode() for index in range(length)))
        owned = {block for run in held for block in run}
        assert pool.free == blocks - len(owned) >= 0
        assert pool.cached <= blocks
    for run in held:
        pool.release(run)
    assert pool.free == blocks


def _hold(pool: BlockPool, held: list[list[int]], hashes: tuple[bytes, ...]) -> None:
    shared = pool.share(hashes)
    fresh = pool.take(len(hashes) - len(shared))
    if fresh is None:
        pool.release(shared)
        return
    for block, content in zip(fresh, hashes[len(shared) :], strict=True):
        pool.publish(block, content)
    held.append(shared + fresh)
