"""The figures of the batching benchmark: what is asked, what is counted, what is compared."""

import random
from itertools import islice
from pathlib import Path

import orjson
import pytest

from bench.batching import (
    ALONE,
    DIRECT,
    FIFTH,
    GROUPS,
    HALF,
    SLUICE,
    Group,
    Lengths,
    Load,
    Requests,
    environ_of,
    figures,
    goals,
    percentile,
    summarise,
)
from bench.client import UNFINISHED, Outcome
from domain.config import parse_config
from domain.simulation.profiles import PROFILES
from workers.engines.port import Job
from workers.engines.simulator_request import read_request

LOAD = Load("test", (ALONE,), Lengths(mean=8, most=40), rate=10)


def requests(round_number: int = 0, count: int = 400, rate: float = 10.0) -> list[tuple[bytes, float]]:
    return [(call.body, call.at_s) for call in islice(Requests(LOAD, round_number, "m", "k", rate), count)]


def outcome(latency_s: float, tokens: int = 4, started_s: float = 0.0, error_code: str = "") -> Outcome:
    return Outcome(0 if error_code else 200, latency_s / 2, latency_s, tokens, error_code, started_s)


def run(arm: str, tokens_per_s: float, p99: float, load: str = "busy") -> dict[str, object]:
    rest = dict.fromkeys(("requests_per_s", "p50", "ttft_p50", "ttft_p99", "unfinished", "busy_cores"), 1.0)
    return {**rest, "load": load, "arm": arm, "tokens_per_s": tokens_per_s, "p99": p99}


def test_every_arm_gets_the_same_requests_and_every_round_others() -> None:
    assert requests() == requests()
    assert not {body for body, _ in requests(0)} & {body for body, _ in requests(1)}


def test_a_prompt_has_64_tokens_and_the_answer_as_many_as_it_is_told() -> None:
    for body, _ in requests(count=20):
        asked = read_request(Job("r", "chat", body, stream=True), 8192)
        assert asked.prompts[0].tokens == 64
        assert asked.max_tokens == asked.min_tokens
        assert orjson.loads(body)["ignore_eos"] is True


def test_no_two_prompts_share_their_first_block() -> None:
    starts = {orjson.loads(body)["messages"][0]["content"][:43] for body, _ in requests()}

    assert len(starts) == 400


def test_requests_are_due_at_the_asked_rate() -> None:
    assert requests(count=2000)[-1][1] == pytest.approx(200, rel=0.1)


def test_answers_have_the_mean_length_and_no_more_than_the_most() -> None:
    dice = random.Random(1)
    drawn = [Lengths(mean=8, most=40).draw(dice) for _ in range(5000)]

    assert sum(drawn) / len(drawn) == pytest.approx(8, rel=0.05)
    assert min(drawn) == 1
    assert max(drawn) == 40


def test_figures_count_tokens_of_unfinished_answers_but_not_their_times() -> None:
    found = figures([outcome(1.0), outcome(2.0, started_s=2.0), outcome(9.0, tokens=2, error_code=UNFINISHED)], 10.0)

    assert (found["completed"], found["unfinished"]) == (2, 1)
    assert found["tokens_per_s"] == 1.0
    assert found["requests_per_s"] == 0.5
    assert (found["p50"], found["p99"], found["ttft_p50"]) == (1000.0, 2000.0, 500.0)


def test_figures_of_a_run_with_failures_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"1 of 2 requests failed.*queue_full"):
        figures([outcome(1.0), outcome(1.0, error_code="queue_full")], 10.0)


def test_percentiles_are_values_that_occurred() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.25, 0.5, 0.51, 1.0)] == [1, 1, 2, 3, 4]


def test_the_summary_compares_medians_with_one_at_a_time_and_with_direct() -> None:
    runs = [run(ALONE, value, 1000.0) for value in (9.0, 10.0, 30.0)]
    runs += [run(SLUICE, value, 200.0) for value in (40.0, 50.0, 60.0)] + [run(DIRECT, 40.0, 100.0)]
    runs += [run(SLUICE, 20.0, 1.0, "idle"), run(DIRECT, 25.0, 1.0, "idle")]

    rows = {(row["load"], row["arm"]): row for row in summarise(runs)}

    ours = rows["busy", SLUICE]
    assert ours["times one at a time"] == 5.0
    assert ours["times direct"] == 1.25
    assert ours["p99, times one at a time"] == 0.2
    assert rows["idle", SLUICE]["times direct"] == 0.8
    assert rows["idle", SLUICE]["times one at a time"] is None


def test_goals_are_checked_against_what_was_reached() -> None:
    runs = [run(ALONE, 10.0, 1000.0), run(SLUICE, 50.0, 300.0), run(DIRECT, 50.0, 100.0)]
    runs += [run(SLUICE, 97.0, 1.0, HALF), run(DIRECT, 100.0, 1.0, HALF)]
    runs += [{**run(SLUICE, 1.0, 1.0, FIFTH), "ttft_p50": 39.0}, {**run(DIRECT, 1.0, 1.0, FIFTH), "ttft_p50": 30.0}]

    found = {(goal["load"], goal["of Sluice"]): (goal["reached"], goal["met"]) for goal in goals(summarise(runs))}

    assert found == {
        ("busy", "throughput, times one at a time"): (5.0, "yes"),
        ("busy", "p99, times one at a time's"): (0.3, "NO"),
        (HALF, "throughput, times direct's"): (0.97, "NO"),
        (FIFTH, "TTFT p50 above direct's, ms"): (9.0, "yes"),
    }


def test_the_picture_names_every_load_and_arm(tmp_path: Path) -> None:
    from bench.plot import plot

    runs = [run(ALONE, 10.0, 1000.0), run(SLUICE, 50.0, 300.0), run(DIRECT, 50.0, 100.0), run(SLUICE, 1.0, 1.0, HALF)]
    plot(summarise(runs), tmp_path / "plot.svg")

    drawn = (tmp_path / "plot.svg").read_text()
    assert all(name in drawn for name in ("busy", "half of direct", ALONE, SLUICE, DIRECT, "(x 5.0)"))


@pytest.mark.parametrize("group", GROUPS["both"], ids=lambda group: group.name)
def test_the_product_gets_the_settings_of_the_engine_in_this_process(group: Group) -> None:
    assert parse_config(environ_of(group.config), str) == group.config
    assert group.config.engine != "simulator" or group.config.sim_profile in PROFILES
