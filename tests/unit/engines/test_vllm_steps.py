from types import SimpleNamespace

from workers.engines.vllm_steps import Steps


def scheduler(running: int, waiting: int = 0, usage: float = 0.5) -> SimpleNamespace:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)


def test_preemptions_add_up_and_the_last_usage_stays() -> None:
    steps = Steps()
    steps.record(1.0, scheduler(1), SimpleNamespace(num_preempted_reqs=2))
    steps.record(2.0, scheduler(1, usage=0.25), SimpleNamespace(num_preempted_reqs=1))
    steps.record(3.0, None, None)

    assert (steps.count, steps.preemptions, steps.kv_usage) == (3, 3, 0.25)


def test_steps_with_work_left_give_the_pace() -> None:
    steps = Steps()
    steps.record(1.0, scheduler(0, waiting=1), None)
    steps.record(1.5, scheduler(0), None)
    steps.record(9.0, scheduler(2), None)

    assert steps.pace.step_ms == 500
