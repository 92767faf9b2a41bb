"""Counting hot keys: exact while there is room, near the truth when there is none, and shared between tenants."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caching.hot.counted import Counted, parse, prefix_of
from caching.hot.hot_list import HotList, unpack
from caching.hot.ranking import MIN_COUNT, HotRow, rank
from caching.hot.sketch_ring import SketchRing, merge

WINDOW_S = 10.0
PLACES = 1000
KEYS = 100_000


def key_of(number: int) -> bytes:
    return number.to_bytes(16)


def handed_in(rings: Iterable[SketchRing]) -> list[tuple[int, bytes]]:
    return [window for ring in rings for window in ring.closed().items()]


def counted(windows: list[list[tuple[int, int]]], processes: int = 1, places: int = PLACES) -> list[HotRow]:
    """Rank what tenants asked for: one list of (tenant, key) a window, dealt out to processes in turn."""
    rings = [SketchRing(WINDOW_S) for _ in range(processes)]
    for number, uses in enumerate(windows):
        for ring in rings:
            ring.roll(number * WINDOW_S)
        for turn, (tenant_id, key) in enumerate(uses):
            rings[turn % processes].count("answer", key_of(key), tenant_id, "m")
    for ring in rings:
        ring.roll(len(windows) * WINDOW_S)
    return rank(merge(handed_in(rings)), places, len(windows) - 1, WINDOW_S)


def zipf_uses(seed: int, uses: int, first_key: int) -> list[int]:
    """Keys by a Zipf law of exponent 1, the hottest being ``first_key``."""
    weights = [1 / (place + 1) for place in range(KEYS)]
    return [first_key + place for place in random.Random(seed).choices(range(KEYS), weights, k=uses)]


# --- names --------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["answer", "prompt"]), st.integers(0, 10**12), st.text(max_size=40), st.binary(max_size=40))
def test_a_name_says_what_it_was_made_of(kind: str, tenant_id: int, model: str, key: bytes) -> None:
    name = prefix_of(kind, tenant_id, model) + key.hex()

    assert parse(name) == Counted(kind, tenant_id, model, key)


@pytest.mark.parametrize("name", ["", "answer", "answer\x1fx\x1fm\x1f00", "answer\x1f1\x1fm\x1fno hex", "a\x1f1\x1f00"])
def test_a_name_of_another_form_is_none(name: str) -> None:
    assert parse(name) is None


# --- counts -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=60), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_few_keys_are_counted_exactly_over_all_processes(windows: list[list[tuple[int, int]]], processes: int) -> None:
    truth = Counter(key for uses in windows for _tenant, key in uses)
    each = Counter(use for uses in windows for use in uses)

    rows = counted(windows, processes)

    # A key that several tenants share is found by those of them that ask often enough.
    expected = {
        key: sum(found for (_tenant, of), found in each.items() if of == key and found >= MIN_COUNT) for key in truth
    }
    assert {row.key: row.count for row in rows} == {key_of(key): n for key, n in expected.items() if n}
    assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_top_thousand_is_found_among_a_hundred_thousand_keys(seed: int) -> None:
    windows = [[(key % 50, key) for key in zipf_uses(seed * 10 + number, 30_000, 0)] for number in range(5)]
    truth = Counter(key for uses in windows for _tenant, key in uses)

    rows = counted(windows, processes=4)

    assert precision(rows, truth) > 0.95


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_top_follows_when_other_keys_become_hot(seed: int) -> None:
    windows = [
        [(key % 50, key) for key in zipf_uses(seed * 20 + number, 30_000, 0 if number < 5 else KEYS)]
        for number in range(10)
    ]
    truth = Counter(key for uses in windows[5:] for _tenant, key in uses)
    rings = [SketchRing(WINDOW_S) for _ in range(2)]
    handed: list[tuple[int, bytes]] = []
    for number, uses in enumerate(windows):
        for ring in rings:
            ring.roll(number * WINDOW_S)
            closed = ring.closed()
            handed += closed.items()
            ring.forget(closed)
        for turn, (tenant_id, key) in enumerate(uses):
            rings[turn % 2].count("answer", key_of(key), tenant_id, "m")
    for ring in rings:
        ring.roll(len(windows) * WINDOW_S)

    latest = [(number, packed) for number, packed in handed + handed_in(rings) if number >= 5]

    assert precision(rank(merge(latest), PLACES, 9, WINDOW_S), truth) > 0.95


def precision(rows: list[HotRow], truth: Counter[int]) -> float:
    """Part of the rows that belong to the top: those that tie with the last of it do."""
    last = truth.most_common(PLACES)[-1][1]
    return sum(truth[int.from_bytes(row.key)] >= last for row in rows) / PLACES


# --- windows ------------------------------------------------------------------------------------------------------


def test_rate_and_trend_tell_of_windows_that_are_over() -> None:
    rows = counted([[(1, 7)] * 10, [(1, 7)] * 10, [(1, 7)] * 40 + [(1, 8)] * 6])

    by_key = {int.from_bytes(row.key): row for row in rows}
    assert by_key[7].rate_per_minute == pytest.approx(120)  # 60 in half a minute
    assert by_key[7].trend == pytest.approx(3.0)  # 40 after 10 and 10
    assert by_key[8].trend == 0.0  # there is nothing to compare with
    assert by_key[7].seen_s == 30.0


def test_a_key_that_is_asked_for_no_more_falls() -> None:
    (row,) = counted([[(1, 7)] * 30, [(1, 7)] * 30, []])

    assert row.trend == -1.0
    assert row.seen_s == 20.0


def test_a_window_that_is_not_over_is_not_handed_in() -> None:
    ring = SketchRing(WINDOW_S)
    ring.roll(0)
    ring.count("answer", key_of(1), 1, "m")

    assert ring.closed() == {}
    ring.roll(WINDOW_S)
    assert list(ring.closed()) == [0]


def test_one_that_is_closed_counts_no_more() -> None:
    ring = SketchRing(WINDOW_S)
    ring.roll(0)
    ring.count("answer", key_of(1), 1, "m")
    ring.close()
    ring.count("answer", key_of(1), 1, "m")

    assert ring.closed() == {}
    assert ring.counted == 1


def test_windows_that_nobody_takes_are_bounded() -> None:
    ring = SketchRing(WINDOW_S, windows=3)
    for number in range(50):
        ring.roll(number * WINDOW_S)
        ring.count("answer", key_of(1), 1, "m")
    ring.roll(50 * WINDOW_S)

    assert list(ring.closed()) == [47, 48, 49]


def test_a_clock_that_is_set_back_goes_on_counting_in_its_window() -> None:
    ring = SketchRing(WINDOW_S)
    for at in (0.0, WINDOW_S, 1.0, WINDOW_S):
        ring.roll(at)
        for _ in range(3):
            ring.count("answer", key_of(1), 1, "m")
    ring.roll(2 * WINDOW_S)

    (row,) = rank(merge(handed_in([ring])), PLACES, 1, WINDOW_S)
    assert row.count == 12


def test_what_cannot_be_read_is_left_out() -> None:
    ring = SketchRing(WINDOW_S)
    ring.roll(0)
    for _ in range(3):
        ring.count("prompt", b"prompt_1", 1, "m")
    ring.roll(WINDOW_S)

    (row,) = rank(merge([(0, b""), (0, b"rubbish" * 9), *ring.closed().items()]), PLACES, 0, WINDOW_S)
    assert (row.kind, row.key, row.tenant_id, row.model, row.count) == ("prompt", b"prompt_1", 1, "m", 3)


# --- shares -------------------------------------------------------------------------------------------------------


def test_a_key_that_several_tenants_share_is_one_row_of_nobody() -> None:
    (row,) = counted([[(1, 7)] * 5 + [(2, 7)] * 4])

    assert (row.count, row.tenant_id) == (9, None)


def test_a_tenant_takes_a_quarter_of_the_places_while_others_want_them() -> None:
    loud = [(1, key) for key in range(200) for _ in range(20)]
    quiet = [(2 + key % 8, 1000 + key) for key in range(300) for _ in range(4)]

    rows = counted([loud + quiet], places=100)

    assert sum(row.tenant_id == 1 for row in rows) == 25
    assert len(rows) == 100


def test_places_that_nobody_wants_go_to_whoever_asks_most() -> None:
    rows = counted([[(1, key) for key in range(200) for _ in range(20)] + [(2, 999)] * 3], places=100)

    assert len(rows) == 100
    assert sum(row.tenant_id == 2 for row in rows) == 1


def test_a_tenant_that_floods_is_counted_as_often_as_all_others_together() -> None:
    ring = SketchRing(WINDOW_S, tenant_floor=100)
    ring.roll(0)
    for number in range(400):
        for _ in range(10):
            ring.count("answer", key_of(number), 1, "m")
        ring.count("answer", key_of(10_000 + number % 4), 2, "m")
    ring.roll(WINDOW_S)

    rows = rank(merge(handed_in([ring])), PLACES, 0, WINDOW_S)

    assert sum(row.count for row in rows if row.tenant_id == 2) == 400
    assert sum(row.count for row in rows if row.tenant_id == 1) <= 400
    assert ring.over_quota == 4400 - ring.counted


def test_a_flood_of_keys_seen_once_hides_nobody() -> None:
    flood = [(1, 1_000_000 + number) for number in range(60_000)]
    normal = [(2 + key % 5, key) for key in range(400) for _ in range(3)]
    mixed = flood + normal
    random.Random(7).shuffle(mixed)

    rows = counted([mixed])

    assert {int.from_bytes(row.key) for row in rows if row.tenant_id != 1} == set(range(400))
    assert all(row.count == MIN_COUNT for row in rows)


# --- the list -----------------------------------------------------------------------------------------------------

SETS = st.frozensets(st.binary(min_size=1, max_size=20), max_size=20)


@given(SETS, SETS, SETS)
def test_a_list_travels_as_it_is(hot: frozenset[bytes], pinned: frozenset[bytes], banned: frozenset[bytes]) -> None:
    made = HotList(hot, pinned, banned)

    assert unpack(made.packed) == made
    assert made.version == HotList(hot, pinned, banned).version
    assert made.kept == (hot | pinned) - banned


@pytest.mark.parametrize("packed", [b"", b"\xc1", b"\x93\x01\x90\x90", b"\x94\x02\x90\x90\x90", b"\x01"])
def test_a_list_of_another_form_is_none(packed: bytes) -> None:
    assert unpack(packed) is None
