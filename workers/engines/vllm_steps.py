"""What vLLM tells of its steps."""

from typing import Any

from workers.engines.step_pace import StepPace


class Steps:
    """Counts steps as vLLM's stat logger hears of them, one call each.

    Attributes:
        count: steps so far.
        kv_usage: share of the KV cache in use after the latest, 0 to 1.
        preemptions: sequences that lost their blocks.
        prompt_tokens: of prompts that were computed; ``cached_tokens`` those of them that were found in the cache.
        generated_tokens: of answers.
        pace: time from one step to the next.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kv_usage = 0.0
        self.preemptions = 0
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = 0
        self.pace = StepPace()

    def record(self, now_s: float, scheduler: Any, iteration: Any) -> None:
        """Take in vLLM's ``SchedulerStats`` and ``IterationStats`` of one step; either may be None."""
        self.count += 1
        if iteration is not None:
            self.preemptions += iteration.num_preempted_reqs
            prompts = iteration.prompt_token_stats
            self.prompt_tokens += prompts.total
            self.cached_tokens += prompts.total - prompts.computed
            self.generated_tokens += iteration.num_generation_tokens
        if scheduler is not None:
            self.kv_usage = scheduler.kv_cache_usage
            self.pace.step(now_s, more=scheduler.num_running_reqs + scheduler.num_waiting_reqs > 0)
