"""Which requests of a bulk job are sent again, and when."""

import pytest

from domain.bulk.again import FIRST_S, LONGEST_S, MAX_UNLUCKY, wait_s


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 422, 499, 504])
def test_what_would_come_again_and_again_stands(status: int) -> None:
    assert wait_s(status, 0, 1, 0, asked_not_to=False) is None


@pytest.mark.parametrize("status", [429, 503])
def test_what_has_no_room_is_waited_for_as_long_as_it_takes(status: int) -> None:
    waits = [wait_s(status, 0, tried, 0, asked_not_to=False) for tried in range(1, 200)]
    assert waits[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert waits[-1] == LONGEST_S
    assert None not in waits


@pytest.mark.parametrize("status", [500, 502])
def test_what_breaks_is_sent_a_few_times(status: int) -> None:
    waits = [wait_s(status, 0, tried, tried, asked_not_to=False) for tried in range(1, MAX_UNLUCKY + 1)]
    assert waits[-1] is None
    assert None not in waits[:-1]


def test_the_time_that_an_answer_tells_is_waited_but_never_for_days() -> None:
    assert wait_s(429, 7.5, 1, 0, asked_not_to=False) == 7.5
    assert wait_s(429, 86_400, 1, 0, asked_not_to=True) == LONGEST_S


def test_what_no_waiting_would_help_stands() -> None:
    assert wait_s(429, 1, 1, 0, asked_not_to=True) is None  # larger than a limit ever is
    assert wait_s(502, 0, 1, 1, asked_not_to=True) is None  # in quarantine
