"""The overload benchmark plans the load it says, and calls an answer good only if it is."""

from collections import Counter

import pytest

from bench.client import Outcome
from bench.overload import MIX, REASONS, Arm, Measured, all_good, endings, good, plan, pooled, verdicts
from bench.workloads import azure
from bench.workloads.azure import Lengths
from domain.qos import QosClass

LENGTHS = [Lengths(100, 10), Lengths(200, 20)]
GOALS_S = {QosClass.P0: 0.2, QosClass.P1: 2.0, QosClass.P2: 7.0}


def outcome(ttft_s: float | None = 0.1, *, started_s: float = 0, status: int = 200, error_code: str = "") -> Outcome:
    return Outcome(status, ttft_s, 1.0, 5, error_code, started_s)


def arm(name: str, **outcomes: list[Outcome]) -> Arm:
    return Arm(name, {qos_class: outcomes.get(qos_class.value, []) for qos_class in QosClass}, cpu_s=1.0)


def test_one_seed_plans_one_load() -> None:
    assert plan(LENGTHS, 20, 30, seed=1) == plan(LENGTHS, 20, 30, seed=1)
    assert plan(LENGTHS, 20, 30, seed=1) != plan(LENGTHS, 20, 30, seed=2)


def test_a_plan_has_the_rate_and_the_mix_that_were_asked_for() -> None:
    planned = plan(LENGTHS, 100, 100, seed=1)
    counts = Counter(one.qos_class for one in planned)
    assert len(planned) == pytest.approx(10_000, rel=0.03)
    assert all(counts[name] / len(planned) == pytest.approx(share, abs=0.02) for name, share in MIX.items())
    assert [one.at_s for one in planned] == sorted(one.at_s for one in planned)
    assert planned[-1].at_s < 100


def test_lengths_are_those_of_the_trace() -> None:
    lengths = azure.load()
    assert len(lengths) == 2_000
    assert lengths[0] == Lengths(374, 44)


@pytest.mark.parametrize(
    "bad",
    [
        outcome(ttft_s=2.1),
        outcome(ttft_s=None),
        outcome(ttft_s=0.2, started_s=9.9),
        outcome(error_code="unfinished"),
        outcome(status=429, error_code="queue_full"),
    ],
    ids=["late", "nothing came", "began after the load", "cut off", "refused"],
)
def test_an_answer_that_is_late_or_not_whole_is_not_good(bad: Outcome) -> None:
    assert good([bad], goal_s=2, until_s=10) == 0


def test_an_answer_within_the_goal_is_good() -> None:
    assert good([outcome(ttft_s=2.0)], goal_s=2, until_s=10) == 1


def test_each_class_is_held_to_its_own_goal() -> None:
    one = arm("classes", p0=[outcome(1.0)], p1=[outcome(1.0)], p2=[outcome(6.0), outcome(8.0)])
    assert all_good(one, GOALS_S, until_s=10) == 2


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("status", [429, 200], ids=["refused", "told in the stream"])
def test_a_refusal_with_a_known_code_has_a_reason(reason: str, status: int) -> None:
    assert endings([outcome(None, status=status, error_code=reason)]) == {reason: 1}


@pytest.mark.parametrize("code", ["unfinished", "no_connection", "internal_error"])
def test_anything_else_that_was_not_answered_has_none(code: str) -> None:
    assert endings([outcome(None, status=0, error_code=code)]) == {"no reason": 1}


def test_rounds_are_pooled_by_class() -> None:
    both = pooled("classes", [arm("1", p0=[outcome(0.1)]), arm("2", p0=[outcome(0.3)], p2=[outcome(1.0)])])
    assert [one.ttft_s for one in both.outcomes[QosClass.P0]] == [0.1, 0.3]
    assert len(both.outcomes[QosClass.P2]) == 1
    assert both.cpu_s == 2.0


def test_the_verdict_compares_p0_with_itself_alone_and_goodput_with_first_come_first_served() -> None:
    classes = arm("classes", p0=[outcome(0.15)], p1=[outcome(1.0)], p2=[outcome(None, error_code="queue_deadline")])
    fcfs = arm("first come first served", p0=[outcome(5.0)], p1=[outcome(1.0)])
    measured = Measured(10.0, [outcome(0.1)], (classes, fcfs), [], seconds=10)
    rows = {row["figure (simulated engines)"]: row for row in verdicts(measured, GOALS_S, until_s=10)}
    assert rows["P0 TTFT p99, times alone"]["measured"] == pytest.approx(1.5)
    assert rows["goodput, times first come first served"]["measured"] == pytest.approx(2)
    assert rows["P2 requests without answer or reason"]["met"]
