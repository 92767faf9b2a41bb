"""How fast bulk jobs of one tenant go."""

from hypothesis import given
from hypothesis import strategies as st

from domain.bulk.pace import FIRST_WINDOW, MAX_WINDOW, Left, Pace, in_flight, most_at_once


def test_it_goes_faster_and_faster_until_it_is_refused_and_then_by_one_a_round() -> None:
    pace = Pace()
    for _ in range(16):
        pace.answered((), 0)
    assert pace.window == 2 * FIRST_WINDOW
    pace.refused(sent_at_s=1, now_s=2, wait_s=0)
    assert pace.window == FIRST_WINDOW
    for _ in range(16):
        pace.answered((), 3)
    assert FIRST_WINDOW + 0.9 < pace.window <= FIRST_WINDOW + 1


def test_many_refusals_of_one_moment_halve_it_once() -> None:
    pace = Pace(window=64)
    for _ in range(10):
        pace.refused(sent_at_s=1, now_s=2, wait_s=1)
    assert (pace.window, pace.resume_at_s) == (32, 3)


def test_nothing_is_sent_while_it_waits() -> None:
    pace = Pace()
    pace.refused(0, 10, 5)
    assert not pace.allows(0, 100, 14.9)
    assert pace.allows(0, 100, 15)


def test_half_of_a_minutes_budget_is_left_to_others() -> None:
    pace = Pace()
    pace.answered((Left(cap=600, left=400, reset_s=20),), 0)
    assert pace.resume_at_s == 0
    pace.answered((Left(cap=600, left=200, reset_s=40),), 0)
    assert pace.resume_at_s == 10  # 100 of the 400 that come back in 40 s


def test_no_more_is_sent_at_once_than_half_of_what_is_left_for_it() -> None:
    pace = Pace()
    assert [pace.allows(under_way, 100, 0) for under_way in (0, 1, 2)] == [True, True, False]
    pace.answered((Left(cap=20, left=17, reset_s=9),), 0)
    assert [pace.allows(under_way, 100, 0) for under_way in (2, 3)] == [True, False]
    pace.answered((Left(cap=20, left=10, reset_s=30),), 0)
    assert [pace.allows(under_way, 100, 0) for under_way in (0, 1)] == [True, False]
    pace.answered((), 0)
    assert pace.allows(15, 100, 0)


def test_budgets_of_a_day_may_be_used_up() -> None:
    pace = Pace()
    pace.answered((Left(cap=600, left=1, reset_s=80_000),), 0)
    assert pace.allows(0, 100, 0)


def test_a_few_requests_wait_for_each_free_seat_of_an_engine() -> None:
    assert [in_flight(seats) for seats in (1, 8, 32, 256)] == [3, 10, 40, 320]


def test_half_of_the_requests_at_once_are_left_to_others() -> None:
    assert most_at_once(()) == MAX_WINDOW
    assert [most_at_once((cap,)) for cap in (1, 2, 3, 10)] == [1, 1, 1, 5]
    assert most_at_once((10, 4)) == 2


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.floats(0, 60)), max_size=100),
    st.integers(1, 5000),
)
def test_whatever_happens_one_request_can_go_in_the_end(events: list[tuple[bool, float, float]], cap: int) -> None:
    pace, now = Pace(), 0.0
    for is_refused, after_s, wait_s in events:
        now += after_s
        if is_refused:
            pace.refused(now - 1, now, wait_s)
        else:
            pace.answered((Left(cap, 0, wait_s),), now)
    assert 1 <= pace.window <= MAX_WINDOW
    assert pace.resume_at_s <= now + 60
    assert pace.allows(0, 1, now + 60)
