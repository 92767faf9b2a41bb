"""The reserve follows what P0 really asks for, and never takes an engine away from the others."""

from hypothesis import given
from hypothesis import strategies as st

from domain.reserve import P0Reserve, background_seats

SHARES = st.floats(0.01, 0.9)
DEMAND = st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 40)), min_size=1, max_size=40)


def fed(reserve: P0Reserve, demand: list[tuple[int, int]]) -> tuple[int, int]:
    """Feed pairs of (ms since the one before, P0 in flight); returns the time and what is in flight at the end."""
    now = in_flight = 0
    for after_ms, in_flight in demand:
        now += after_ms
        reserve.observe(now, in_flight)
    return now, in_flight


def test_nothing_is_kept_before_p0_ever_came() -> None:
    reserve = P0Reserve(32, 0.25)
    assert reserve.seats(0) == 0
    reserve.observe(0, 0)
    assert reserve.seats(0) == 0


@given(st.integers(1, 64), SHARES, DEMAND)
def test_the_reserve_keeps_within_its_share_and_leaves_something_to_the_others(
    max_seqs: int, share: float, demand: list[tuple[int, int]]
) -> None:
    reserve = P0Reserve(max_seqs, share)
    _, in_flight = fed(reserve, demand)
    assert 0 <= reserve.seats(in_flight) <= max(1, share * max_seqs + 1e-6)
    assert reserve.seats(in_flight) <= max_seqs - 1


@given(st.integers(2, 64), SHARES, DEMAND, st.integers(1, 40), st.integers(0, 119_000))
def test_a_sequence_is_free_for_p0_for_two_minutes_after_it_came(
    max_seqs: int, share: float, demand: list[tuple[int, int]], p0: int, later_ms: int
) -> None:
    reserve = P0Reserve(max_seqs, share)
    now, _ = fed(reserve, [*demand, (1, p0)])
    assert reserve.seats(p0) >= 1
    reserve.observe(now + later_ms, 0)
    assert reserve.seats(0) >= 1
    reserve.observe(now + 120_000, 0)
    assert reserve.seats(0) == 0


@given(st.integers(0, 12))
def test_a_gap_within_the_half_life_keeps_room_for_the_peak_to_return(gap_s: int) -> None:
    reserve = P0Reserve(64, 0.5)
    fed(reserve, [(0, 6), (gap_s * 1000, 0)])
    peak = 6 * 0.5 ** (gap_s / 30)
    assert peak + 1 <= reserve.seats(0) < peak + 2


def test_what_p0_runs_already_is_not_kept_a_second_time() -> None:
    reserve = P0Reserve(64, 0.5)
    reserve.observe(0, 6)
    assert [reserve.seats(n) for n in (0, 3, 6, 9)] == [7, 4, 1, 1]


def test_the_reserve_sinks_as_demand_does() -> None:
    reserve = P0Reserve(64, 0.5)
    fed(reserve, [(0, 16)])
    kept = []
    for minute in range(1, 60):
        reserve.observe(minute * 30_000, 1)
        kept.append(reserve.seats(0))
    assert kept[:4] == [9, 5, 3, 2]
    assert set(kept[4:]) == {2}


@given(st.integers(0, 64), st.integers(0, 40))
def test_a_share_of_none_keeps_nothing(max_seqs: int, p0: int) -> None:
    reserve = P0Reserve(max_seqs, 0.0)
    reserve.observe(0, p0)
    assert (reserve.seats(p0), background_seats(max_seqs, 0.0)) == (0, 0)


@given(st.integers(2, 256), st.floats(0.001, 1.0))
def test_background_leaves_its_share_at_least_one_and_never_all(max_seqs: int, share: float) -> None:
    seats = background_seats(max_seqs, share)
    assert 1 <= seats <= max_seqs - 1
    assert seats <= max(1, share * max_seqs + 1e-6)
    assert seats >= min(max_seqs - 1, share * max_seqs - 1)


def test_an_engine_of_one_sequence_is_kept_for_nobody() -> None:
    reserve = P0Reserve(1, 0.9)
    reserve.observe(0, 1)
    assert (reserve.seats(0), background_seats(1, 0.9)) == (0, 0)


def test_shares_are_exact_where_binary_fractions_are_not() -> None:
    assert [background_seats(100, 0.29), background_seats(32, 0.125), background_seats(32, 0.25)] == [29, 4, 8]
