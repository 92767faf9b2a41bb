"""The affinity benchmark turns a trace into prompts that share what the trace shares, and measures spread."""

import math

import orjson
import pytest

from bench.affinity import MAX_ANSWER_TOKENS, PACED_S, hot_calls, load_ratio, replay_calls, spread, utilisation
from bench.usage import Served, hit_rate
from bench.workloads import mooncake
from bench.workloads.mooncake import Request, best_hit_rate, prompt
from bench.workloads.sample import MAX_BLOCKS, sample_conversations

BLOCK_BYTES = 2_048


def request(*hash_ids: int, timestamp: int = 0, tokens: int | None = None, answer: int = 7) -> Request:
    return Request(timestamp, 512 * len(hash_ids) if tokens is None else tokens, answer, hash_ids)


def served(worker: str, prompt_tokens: int = 100, cached_tokens: int = 0) -> Served:
    return Served("a", "p1", worker, prompt_tokens, cached_tokens, 10, 0, 0, 1, 2)


def test_equal_hash_ids_are_equal_text() -> None:
    one, other = prompt(request(1, 2, 3), "s"), prompt(request(1, 2, 9), "s")
    assert one[: 2 * BLOCK_BYTES] == other[: 2 * BLOCK_BYTES]
    assert one[2 * BLOCK_BYTES :][:64] != other[2 * BLOCK_BYTES :][:64]


def test_two_salts_share_nothing() -> None:
    assert prompt(request(1), "paced")[:64] != prompt(request(1), "saturated")[:64]


def test_a_prompt_has_the_length_of_the_trace() -> None:
    assert len(prompt(request(1, 2, tokens=700), "s")) == 4 * 700


def test_the_best_hit_rate_counts_only_what_came_before_as_a_prefix() -> None:
    assert best_hit_rate([request(1, 2), request(1, 3), request(4, 2)]) == pytest.approx(1 / 6)
    assert best_hit_rate([]) == 0


@pytest.mark.parametrize("name", PACED_S)
def test_samples_are_whole_requests_in_order_of_time_that_share_prefixes(name: str) -> None:
    requests = mooncake.load(name)
    assert len(requests) >= 400
    assert [one.timestamp for one in requests] == sorted(one.timestamp for one in requests)
    assert all(len(one.hash_ids) == math.ceil(one.input_length / 512) for one in requests)
    assert best_hit_rate(requests) > 0.3


def test_a_replay_keeps_the_proportions_of_the_trace_and_cuts_answers() -> None:
    trace = [
        request(1, timestamp=1_000, answer=5),
        request(2, timestamp=2_000),
        request(3, timestamp=5_000, answer=900),
    ]
    calls = replay_calls(trace, "s", "sk-1", seconds=8)
    assert [call.at_s for call in calls] == [0, 2, 8]
    assert [orjson.loads(call.body)["max_tokens"] for call in calls] == [5, 7, MAX_ANSWER_TOKENS]


def test_hot_requests_share_one_long_prefix_and_nothing_after_it() -> None:
    stream = hot_calls("sk-1")
    one, other = (orjson.loads(next(stream).body)["messages"][0]["content"] for _ in range(2))
    same = next(index for index, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    assert 4 * 4_096 <= same < 4 * 4_096 + 16


def test_conversations_are_sampled_whole_and_long_ones_left_out() -> None:
    requests = [
        request(0, 1),
        request(0, 2),
        request(0, 1, 3),
        request(0, 4, *range(10, 10 + MAX_BLOCKS)),
        request(0, 4),
    ]
    assert sample_conversations(requests, root_blocks=2, wanted=100, seed=1) == [0, 1, 2]


def test_enough_conversations_are_enough() -> None:
    assert len(sample_conversations([request(0, number) for number in range(50)], 2, wanted=5, seed=1)) == 5


def test_spread_is_the_deviation_between_workers_not_over_time() -> None:
    assert spread({"worker-1": [0.0, 1.0], "worker-2": [1.0, 0.0]}) == 0
    assert spread({"worker-1": [0.4, 0.6], "worker-2": [0.9, 0.9]}) == pytest.approx(20)
    assert utilisation({"worker-1": [0.4, 0.6], "worker-2": [0.9, 0.9]}) == pytest.approx(70)


def test_load_ratio_is_infinite_when_a_worker_got_nothing() -> None:
    assert load_ratio([served("worker-1"), served("worker-1"), served("worker-2")], workers=2) == 2
    assert load_ratio([served("worker-1")], workers=2) == math.inf


def test_hit_rate_is_by_tokens() -> None:
    assert hit_rate([served("worker-1", 100, 0), served("worker-2", 300, 100)]) == pytest.approx(0.25)
    assert hit_rate([]) == 0
