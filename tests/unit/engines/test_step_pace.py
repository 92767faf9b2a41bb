"""The pace is the time between steps that followed each other, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engines.step_pace import StepPace


def paced(*steps: tuple[float, bool]) -> StepPace:
    pace = StepPace()
    for now_s, more in steps:
        pace.step(now_s, more=more)
    return pace


@pytest.mark.parametrize("steps", [(), ((1.0, True),), ((1.0, False), (9.0, True))])
def test_there_is_no_pace_before_two_steps_ran_back_to_back(steps: tuple[tuple[float, bool], ...]) -> None:
    assert paced(*steps).step_ms == 0


def test_the_first_pair_of_steps_gives_the_pace() -> None:
    assert paced((1.0, True), (1.02, True)).step_ms == pytest.approx(20)


def test_idle_time_does_not_count() -> None:
    assert paced((1.0, True), (1.02, False), (500.0, True), (500.02, True)).step_ms == pytest.approx(20)


def test_a_pause_does_not_count() -> None:
    pace = paced((1.0, True), (1.02, True))
    pace.pause()
    pace.step(60.0, more=True)

    assert pace.step_ms == pytest.approx(20)


@given(st.floats(0.001, 10), st.floats(0.001, 10))
def test_the_pace_moves_to_a_new_one_and_never_past_it(before_s: float, after_s: float) -> None:
    pace = paced((0.0, True), (before_s, True))
    now_s = before_s
    for _ in range(60):
        now_s += after_s
        pace.step(now_s, more=True)

    assert min(before_s, after_s) * 999 <= pace.step_ms <= max(before_s, after_s) * 1001
    assert pace.step_ms == pytest.approx(1000 * after_s, abs=10 * abs(after_s - before_s) + 0.01)
