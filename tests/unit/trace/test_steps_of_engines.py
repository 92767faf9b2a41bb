"""Steps and launches pass through a message unchanged, and their counters stay bounded."""

import pytest

from domain.trace.launches import MOST_COUNTS, MOST_NAMES, OTHERS, TRITON, WINDOW_US, LaunchCounter, Launches
from domain.trace.step import Step, flat_step, read_step
from tracing.store.step_packing import pack_steps, unpack_steps
from workers.engines.step_log import MOST, StepLog

STEP = Step(1_700_000_000_500_000, 40_000, 3, 1, 20, 3, 125, 1, 39_000)
LAUNCHES = Launches(1_700_000_000_500_000, 4711, TRITON, "add", 12)


def test_steps_and_launches_are_read_as_they_were_packed() -> None:
    assert unpack_steps(pack_steps([STEP, STEP], [LAUNCHES])) == ([STEP, STEP], [LAUNCHES])
    assert unpack_steps(pack_steps([])) == ([], [])


def test_a_step_of_a_later_release_is_read_without_what_is_new() -> None:
    assert read_step([*flat_step(STEP), 7]) == STEP
    with pytest.raises(TypeError):
        read_step([])


def test_a_step_begins_its_length_before_its_end() -> None:
    assert STEP.began_us == STEP.ended_us - 40_000


def test_of_too_many_steps_the_latest_are_kept_and_given_once() -> None:
    log = StepLog()
    for number in range(MOST + 10):
        log.add(Step(number, 1))
    taken = log.take()

    assert (len(taken), taken[0].ended_us, taken[-1].ended_us) == (MOST, 10, MOST + 9)
    assert log.take() == []


def test_launches_are_counted_by_window_process_and_name() -> None:
    counter = LaunchCounter(TRITON)
    for at_us in (0, WINDOW_US - 1, WINDOW_US):
        counter.add(at_us, 1, "add")
    counter.add(0, 2, "add")

    assert [(one.from_us, one.pid, one.count) for one in counter.take()] == [(0, 1, 2), (WINDOW_US, 1, 1), (0, 2, 1)]
    assert counter.take() == []


def test_further_names_are_counted_together() -> None:
    counter = LaunchCounter(TRITON)
    for number in range(MOST_NAMES + 5):
        counter.add(0, 1, str(number))
    found = counter.take()

    assert len(found) == MOST_NAMES + 1
    assert (found[-1].name, found[-1].count) == (OTHERS, 5)


def test_counts_that_nobody_takes_are_bounded() -> None:
    counter = LaunchCounter(TRITON)
    for number in range(MOST_COUNTS + 3):
        counter.add(number * WINDOW_US, 1, "add")
    counter.add(0, 1, "add")

    assert counter.dropped == 3
    assert len(counter.take()) == MOST_COUNTS
