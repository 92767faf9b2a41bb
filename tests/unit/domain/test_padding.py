from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.padding import GROWTH, MAX_WASTE, OLDEST_EVERY, LengthBuckets, PaddingMeter, Row, bucket_edges

LONGEST, MAX_TOKENS, MAX_ROWS = 512, 2048, 16

rows = st.lists(st.tuples(st.integers(1, LONGEST), st.sampled_from([0, 10, 20])), max_size=120).map(
    lambda found: [Row(order, length, priority, None) for order, (length, priority) in enumerate(found)]
)


def buckets(waiting: list[Row[None]]) -> LengthBuckets[None]:
    made: LengthBuckets[None] = LengthBuckets(LONGEST, MAX_TOKENS, MAX_ROWS)
    made.add(waiting)
    return made


def drain(made: LengthBuckets[None]) -> list[list[Row[None]]]:
    passes = []
    while batch := made.take():
        passes.append(batch)
    return passes


def waste(batch: list[Row[None]]) -> float:
    return 1 - sum(row.length for row in batch) / (max(row.length for row in batch) * len(batch))


@given(rows)
def test_every_row_runs_exactly_once(waiting: list[Row[None]]) -> None:
    made = buckets(waiting)
    assert len(made) == len(waiting)

    ran = Counter(row.order for batch in drain(made) for row in batch)

    assert ran == Counter(row.order for row in waiting)
    assert len(made) == 0


@given(rows)
def test_no_pass_is_larger_than_allowed_or_wastes_more_than_the_bound(waiting: list[Row[None]]) -> None:
    for batch in drain(buckets(waiting)):
        assert len(batch) <= MAX_ROWS
        assert max(row.length for row in batch) * len(batch) <= MAX_TOKENS
        assert waste(batch) <= MAX_WASTE


@given(rows)
def test_the_most_urgent_row_leads_but_for_the_turn_of_the_oldest(waiting: list[Row[None]]) -> None:
    left = {row.order: row for row in waiting}
    for number, batch in enumerate(drain(buckets(waiting)), start=1):
        if number % OLDEST_EVERY == 0:
            assert batch[0].order == min(left)
        else:
            assert batch[0] == min(left.values(), key=lambda row: (row.priority, row.order))
        assert [(row.priority, row.order) for row in batch[1:]] == sorted(
            (row.priority, row.order) for row in batch[1:]
        )
        for row in batch:
            del left[row.order]


def test_a_background_row_runs_though_urgent_ones_never_end() -> None:
    made = buckets([Row(0, 300, 20, None)])
    for number in range(1, 200):
        made.add([Row(number, 10 + number % 200, 0, None)])
        if any(row.order == 0 for row in made.take()):
            break

    assert number <= OLDEST_EVERY


@given(rows, st.data())
def test_removed_rows_never_run_and_the_others_do(waiting: list[Row[None]], data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(waiting), unique_by=lambda row: row.order)) if waiting else []
    made = buckets(waiting)
    made.remove(gone)
    made.remove(gone)

    ran = {row.order for batch in drain(made) for row in batch}

    assert ran == {row.order for row in waiting} - {row.order for row in gone}


def test_a_row_that_comes_between_two_passes_joins_the_next_one() -> None:
    made = buckets([Row(number, 100, 10, None) for number in range(40)])
    made.take()
    made.add([Row(40, 100, 0, None)])

    assert made.take()[0].order == 40


@pytest.mark.parametrize("longest", [1, 2, 9, 10, 512, 8192])
def test_edges_grow_by_the_growth_at_most(longest: int) -> None:
    edges = bucket_edges(longest)

    assert edges[-1] >= longest
    assert all(shortest + 1 == edge or edge <= shortest * GROWTH for shortest, edge in pairwise(edges))


def test_waste_is_the_padding_in_what_was_computed() -> None:
    meter = PaddingMeter()
    assert (meter.waste, meter.recent_waste) == (0, 0)

    meter.count([1, 3])
    for _ in range(1000):
        meter.count([5])

    assert (meter.real_tokens, meter.padded_tokens) == (5004, 5006)
    assert meter.waste == pytest.approx(2 / 5006)
    assert meter.recent_waste == 0
