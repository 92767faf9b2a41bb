from types import SimpleNamespace

from domain.trace.step import Step
from workers.engines.vllm_steps import Steps


def scheduler(running: int, waiting: int = 0, usage: float = 0.5) -> SimpleNamespace:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)


def iteration(
    preempted: int = 0, prompt: int = 0, computed: int = 0, generated: int = 0, finished: int = 0
) -> SimpleNamespace:
    return SimpleNamespace(
        num_preempted_reqs=preempted,
        prompt_token_stats=SimpleNamespace(total=prompt, computed=computed),
        num_generation_tokens=generated,
        finished_requests=[None] * finished,
    )


def test_tokens_add_up_as_vllm_counts_them() -> None:
    steps = Steps()
    steps.record(1.0, 1_000_000, scheduler(1), iteration(prompt=20, computed=4, generated=1))
    steps.record(2.0, 2_000_000, scheduler(1), None)
    steps.record(3.0, 3_000_000, scheduler(1), iteration(generated=5))

    assert (steps.prompt_tokens, steps.cached_tokens, steps.generated_tokens) == (20, 16, 6)


def test_preemptions_add_up_and_the_last_usage_stays() -> None:
    steps = Steps()
    steps.record(1.0, 1_000_000, scheduler(1), iteration(preempted=2))
    steps.record(2.0, 2_000_000, scheduler(1, usage=0.25), iteration(preempted=1))
    steps.record(3.0, 3_000_000, None, None)

    assert (steps.count, steps.preemptions, steps.kv_usage) == (3, 3, 0.25)


def test_steps_with_work_left_give_the_pace() -> None:
    steps = Steps()
    steps.record(1.0, 1_000_000, scheduler(0, waiting=1), None)
    steps.record(1.5, 1_500_000, scheduler(0), None)
    steps.record(9.0, 9_000_000, scheduler(2), None)

    assert steps.pace.step_ms == 500


def test_a_step_lasts_from_the_one_before_or_from_when_work_came() -> None:
    steps = Steps()
    steps.work_came(1_000_000)
    steps.record(1.5, 1_500_000, scheduler(1, waiting=2), iteration(prompt=20, computed=4, generated=1))
    steps.record(1.8, 1_800_000, scheduler(0, usage=0), iteration(preempted=1, generated=1, finished=1))
    steps.record(1.801, 1_801_000, scheduler(0, usage=0), None)  # it clears up
    steps.work_came(9_000_000)
    steps.record(9.1, 9_100_000, scheduler(1), None)

    assert steps.log.take() == [
        Step(1_500_000, 500_000, running=1, waiting=2, prompt_tokens=20, generated_tokens=1, kv_usage_permille=500),
        Step(1_800_000, 300_000, running=1, generated_tokens=1, preemptions=1),
        Step(9_100_000, 100_000, running=1, kv_usage_permille=500),
    ]


def test_a_step_whose_only_request_was_aborted_is_one() -> None:
    steps = Steps()
    steps.work_came(1_000_000)
    steps.record(1.5, 1_500_000, scheduler(1), iteration(generated=1))
    steps.record(1.8, 1_800_000, scheduler(0), None)
    steps.record(1.9, 1_900_000, scheduler(0), None)  # it clears up

    assert [step.duration_us for step in steps.log.take()] == [500_000, 300_000]


def test_work_that_comes_while_vllm_clears_up_begins_a_step() -> None:
    steps = Steps()
    steps.record(1.0, 1_000_000, scheduler(0), iteration(generated=1, finished=1))
    steps.work_came(1_001_000)
    steps.record(1.002, 1_002_000, scheduler(0), None)
    steps.record(1.5, 1_500_000, scheduler(1), iteration(generated=1))

    assert steps.log.take()[-1].duration_us == 499_000


def test_work_that_comes_after_all_was_aborted_begins_a_step() -> None:
    steps = Steps()
    steps.record(1.0, 1_000_000, scheduler(1), None)
    steps.work_came(5_000_000)
    steps.record(5.2, 5_200_000, scheduler(1), None)

    assert steps.log.take()[-1].duration_us == 200_000


def test_time_inside_the_model_is_asked_for_each_step_and_is_no_longer_than_it() -> None:
    asked: list[tuple[int, int]] = []

    def model_us(from_us: int, until_us: int) -> int:
        asked.append((from_us, until_us))
        return 250_000

    steps = Steps(model_us)
    steps.work_came(1_000_000)
    steps.record(1.3, 1_300_000, scheduler(1), None)
    steps.record(1.5, 1_500_000, scheduler(1), None)

    assert asked == [(1_000_000, 1_300_000), (1_300_000, 1_500_000)]
    assert [step.model_us for step in steps.log.take()] == [250_000, 200_000]
