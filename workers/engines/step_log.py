"""The steps that an engine made and that nobody has taken yet."""

from collections import deque

from domain.trace.step import Step

MOST = 4_096
"""Steps that wait; the oldest ones go first."""


class StepLog:
    """Use from the engine's event loop only."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=MOST)

    def add(self, step: Step) -> None:
        """Keep a step."""
        self._steps.append(step)

    def take(self) -> list[Step]:
        """The steps since the last call, in their order; at most ``MOST``, the latest ones."""
        steps = list(self._steps)
        self._steps.clear()
        return steps
