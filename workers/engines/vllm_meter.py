"""What one job costs, counted from the engine's own outputs and not from the text that is made of them."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from domain.usage import Usage
from workers.engines.port import Job, Times


class _Choice(Protocol):
    @property
    def token_ids(self) -> Sequence[int]: ...


class _Output(Protocol):
    @property
    def outputs(self) -> Sequence[_Choice]: ...
    @property
    def num_cached_tokens(self) -> int | None: ...
    @property
    def finished(self) -> bool: ...
    @property
    def metrics(self) -> Any: ...


class Meter:
    """Counts one job; a job with several prompts is several requests to the engine.

    Attributes:
        job: the job.
        seqs: sequences that it occupies.
        limit: tokens that the client wants at most.
        resumes: earlier attempts delivered some of the answer.
        said: its text.
        resume_ids: its token ids, if they are known.
        failure: the error that ended one of its requests.
        exhausted: earlier attempts delivered all tokens that the client allowed.
    """

    def __init__(self, job: Job, seqs: int, limit: int | None, said: str = "", resume_ids: Sequence[int] = ()) -> None:
        self.job = job
        self.seqs = seqs
        self.limit = limit
        self.said = said
        self.resume_ids = resume_ids
        self.resumes = bool(resume_ids or said)
        self.failure: Exception | None = None
        self.exhausted = False
        self._prompts: dict[str, int] = {}
        self._cached: dict[str, int] = {}
        self._unfinished: set[str] = set()
        self._produced = 0
        self._new_ids: list[int] = []

    @property
    def unfinished(self) -> list[str]:
        """Ids of requests that the engine still works on."""
        return list(self._unfinished)

    @property
    def usage(self) -> Usage:
        """Cost so far, over all attempts."""
        return self._usage(self._produced)

    @property
    def usage_before(self) -> Usage:
        """Cost before the tokens that :meth:`take_ids` will give."""
        return self._usage(self._produced - len(self._new_ids))

    def take_ids(self) -> tuple[int, ...]:
        """Tokens produced since the last call, of a stream with one sequence."""
        ids, self._new_ids = tuple(self._new_ids), []
        return ids

    def waiting_tokens(self) -> int:
        """Prompt tokens handed to the engine that have not shown in its cache yet."""
        return sum(tokens for request_id, tokens in self._prompts.items() if request_id not in self._cached)

    def begin(self, request_id: str, prompt_tokens: int) -> None:
        """The engine got one request."""
        self._prompts[request_id] = prompt_tokens
        self._unfinished.add(request_id)

    def count(self, request_id: str, output: _Output) -> None:
        """The engine answered with ``output``, which holds what is new since the last one."""
        if request_id not in self._cached:
            self._cached[request_id] = min(output.num_cached_tokens or 0, self._prompts[request_id])
        for choice in output.outputs:
            self._produced += len(choice.token_ids)
            if self.job.stream and self.seqs == 1:
                self._new_ids += choice.token_ids
        if output.metrics is not None:
            note_times(self.job.times, output.metrics)
        if output.finished:
            self._unfinished.discard(request_id)

    def _usage(self, produced: int) -> Usage:
        return Usage(sum(self._prompts.values()), sum(self._cached.values()), self.job.delivered_tokens + produced)


def note_times(times: Times, stats: Any) -> None:
    """Take in vLLM's ``RequestStateStats``, whose moments are seconds of this machine's monotonic clock; 0 is unknown.

    Of a job with several sequences the earliest beginning counts, and the latest token.
    """
    offset_s = time.time() - time.monotonic()

    def moment(seconds: float) -> int:
        return int((seconds + offset_s) * 1_000_000) if seconds else 0

    times.queued_us = _first(times.queued_us, moment(stats.queued_ts))
    times.scheduled_us = _first(times.scheduled_us, moment(stats.scheduled_ts))
    times.first_us = _first(times.first_us, moment(stats.first_token_ts))
    times.last_us = max(times.last_us, moment(stats.last_token_ts))
    times.steps = max(times.steps, stats.num_generation_tokens)
    times.preemptions = max(times.preemptions, stats.num_preemptions)


def _first(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
