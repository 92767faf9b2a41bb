"""What vLLM tells of its steps."""

from collections.abc import Callable
from typing import Any

from domain.trace.step import Step
from workers.engines.step_log import StepLog
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
        log: the steps themselves.
    """

    def __init__(self, model_us: Callable[[int, int], int] = lambda _from_us, _until_us: 0) -> None:
        """Begin to count; ``model_us`` gives the time inside the model between two moments, all in microseconds."""
        self.count = 0
        self.kv_usage = 0.0
        self.preemptions = 0
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = 0
        self.pace = StepPace()
        self.log = StepLog()
        self._model_us = model_us
        self._begun_us = self._left = 0

    def work_came(self, now_us: int) -> None:
        """The engine was idle and got a request: its next step begins."""
        self._begun_us = now_us

    def record(self, now_s: float, now_us: int, scheduler: Any, iteration: Any) -> None:
        """Take in vLLM's ``SchedulerStats`` and ``IterationStats`` of one step; either may be None.

        Args:
            now_s: monotonic, when it ended; ``now_us`` the same since 1970.
            scheduler: as it stands after the step.
            iteration: what came of it.
        """
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
        self._log(now_us, scheduler, iteration)

    def _log(self, now_us: int, scheduler: Any, iteration: Any) -> None:
        running, waiting = (scheduler.num_running_reqs, scheduler.num_waiting_reqs) if scheduler else (0, 0)
        left_before, self._left = self._left, running + waiting
        if not (left_before or self._left or iteration):
            return  # vLLM only cleared up behind the last request
        begun_us, self._begun_us = self._begun_us or now_us, now_us
        duration_us = max(0, now_us - begun_us)
        self.log.add(
            Step(
                ended_us=now_us,
                duration_us=duration_us,
                running=running + (len(iteration.finished_requests) if iteration else 0),
                waiting=waiting,
                prompt_tokens=iteration.prompt_token_stats.total if iteration else 0,
                generated_tokens=iteration.num_generation_tokens if iteration else 0,
                kv_usage_permille=int(1000 * self.kv_usage),
                preemptions=iteration.num_preempted_reqs if iteration else 0,
                model_us=min(self._model_us(begun_us, now_us), duration_us),
            )
        )
