from types import SimpleNamespace

from workers.engines.vllm_steps import Steps


def scheduler(running: int, waiting: int = 0, usage: float = 0.5) -> SimpleNamespace:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)


def iteration(preempted: int = 0, prompt: int = 0, computed: int = 0, generated: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        num_preempted_reqs=preempted,
        prompt_token_stats=SimpleNamespace(total=prompt, computed=computed),
        num_generation_tokens=generated,
    )


def test_tokens_add_up_as_vllm_counts_them() -> None:
    steps = Steps()
    steps.record(1.0, scheduler(1), iteration(prompt=20, computed=4, generated=1))
    steps.record(2.0, scheduler(1), None)
    steps.record(3.0, scheduler(1), iteration(generated=5))

    assert (steps.prompt_tokens, steps.cached_tokens, steps.generated_tokens) == (20, 16, 6)


def test_preemptions_add_up_and_the_last_usage_stays() -> None:
    steps = Steps()
    steps.record(1.0, scheduler(1), iteration(preempted=2))
    steps.record(2.0, scheduler(1, usage=0.25), iteration(preempted=1))
    steps.record(3.0, None, None)

    assert (steps.count, steps.preemptions, steps.kv_usage) == (3, 3, 0.25)


def test_steps_with_work_left_give_the_pace() -> None:
    steps = Steps()
    steps.record(1.0, scheduler(0, waiting=1), None)
    steps.record(1.5, scheduler(0), None)
    steps.record(9.0, scheduler(2), None)

    assert steps.pace.step_ms == 500
