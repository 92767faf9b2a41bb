"""The simulator's journal: what its scheduler counted for each attempt, kept where no kill reaches it."""

import os

import orjson

from workers.engines.simulator_run import Run


class Journal:
    """Adds one line of JSON for each attempt that ends; any number of processes may share the file.

    A line is in the file before the worker tells anybody that the request has ended, so each request that a worker
    ended as completed has one. A process that is killed writes none for what it was at.

    Args:
        path: the file; empty for no journal.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else None

    def ended(self, run: Run) -> None:
        """Write down an attempt: its counts are those of the scheduler, not those of the frames."""
        if self._file is None:
            return
        sequences = [part.sequence for part in run.parts]
        prompts = sequences[:: run.asked.choices]  # choices of one prompt share it
        line = {
            "request_id": run.job.request_id,
            "how": _how(run),
            "prompt": sum(one.prompt_tokens for one in prompts),
            "cached": sum(one.cached_tokens for one in prompts),
            "completion": sum(one.produced for one in sequences),
            "generated": sum(one.produced - one.began_at for one in sequences),
        }
        os.write(self._file, orjson.dumps(line) + b"\n")


def _how(run: Run) -> str:
    if run.error is not None:
        return type(run.error).__name__
    return "completed" if run.ended and not run.frames else "aborted"
