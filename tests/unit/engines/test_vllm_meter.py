import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from domain.usage import Usage
from workers.engines.port import Job
from workers.engines.vllm_meter import Meter


@dataclass
class Choice:
    token_ids: list[int]


@dataclass
class Output:
    outputs: Sequence[Choice]
    num_cached_tokens: int | None = 0
    finished: bool = False
    metrics: Any = None


@dataclass
class Stats:
    """As vLLM's ``RequestStateStats``: seconds of the monotonic clock, 0 for not yet."""

    queued_ts: float = 0.0
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    num_generation_tokens: int = 0
    num_preemptions: int = 0


def meter(delivered_tokens: int = 0) -> Meter:
    return Meter(Job("id", "chat", b"{}", stream=True, delivered_tokens=delivered_tokens), 1, None)


def test_new_tokens_of_all_choices_add_up() -> None:
    made = meter()
    made.begin("r", 10)
    made.count("r", Output([Choice([1]), Choice([2, 3])], num_cached_tokens=4))
    made.count("r", Output([Choice([4])]))

    assert made.usage == Usage(10, 4, 4)


def test_new_ids_are_given_once_and_the_usage_before_leaves_them_out() -> None:
    made = meter(delivered_tokens=2)
    made.begin("r", 10)
    made.count("r", Output([Choice([7, 8])]))

    assert made.usage_before == Usage(10, 0, 2)
    assert made.take_ids() == (7, 8)
    assert made.take_ids() == ()
    assert made.usage_before == made.usage == Usage(10, 0, 4)


def test_ids_of_several_sequences_are_not_kept() -> None:
    made = Meter(Job("id", "chat", b"{}", stream=True), 2, None)
    made.begin("r", 10)
    made.count("r", Output([Choice([7]), Choice([8])]))

    assert made.take_ids() == ()


def test_prompts_of_several_requests_add_up() -> None:
    made = meter()
    for name in ("r-0", "r-1"):
        made.begin(name, 10)
        made.count(name, Output([Choice([1])], num_cached_tokens=3))

    assert made.usage == Usage(20, 6, 2)


def test_what_earlier_attempts_delivered_counts() -> None:
    made = meter(delivered_tokens=5)
    made.begin("r", 10)
    made.count("r", Output([Choice([1])], num_cached_tokens=14))

    assert made.usage == Usage(10, 10, 6)  # the delivered tokens were cached too, but are no prompt


def test_a_request_waits_until_its_first_output_and_is_unfinished_until_its_last() -> None:
    made = meter()
    made.begin("r", 10)
    assert (made.waiting_tokens(), made.unfinished) == (10, ["r"])

    made.count("r", Output([Choice([1])], num_cached_tokens=None))
    assert (made.waiting_tokens(), made.unfinished) == (0, ["r"])

    made.count("r", Output([], finished=True))
    assert made.unfinished == []


def test_what_the_engine_did_when_is_told_by_the_clock_of_the_wall() -> None:
    made, now = meter(), time.monotonic()
    made.begin("r", 10)
    made.count("r", Output([Choice([1])], metrics=Stats(now - 2, now - 1, now, now, 1)))
    first = time.time_ns() // 1000
    made.count("r", Output([Choice([2])], finished=True, metrics=Stats(now - 2, now - 1, now, now + 1, 2, 1)))

    times = made.job.times
    assert times.scheduled_us - times.queued_us == pytest.approx(1_000_000, abs=500_000)
    assert times.first_us == pytest.approx(first, abs=500_000)
    assert times.last_us - times.first_us == pytest.approx(1_000_000, abs=500_000)
    assert (times.steps, times.preemptions) == (2, 1)


def test_of_several_sequences_the_earliest_beginning_and_the_latest_token_count() -> None:
    made, now = meter(), time.monotonic()
    for name in ("a", "b"):
        made.begin(name, 10)
    made.count("a", Output([Choice([1])], metrics=Stats(now - 3, now - 2, now - 1, now - 1, 1)))
    made.count("b", Output([Choice([1])], metrics=Stats(now - 3, now - 1, now, now, 1)))

    times = made.job.times
    assert times.first_us - times.scheduled_us == pytest.approx(1_000_000, abs=500_000)
    assert times.last_us - times.first_us == pytest.approx(1_000_000, abs=500_000)
