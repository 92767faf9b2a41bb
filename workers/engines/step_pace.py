"""How fast an engine makes its steps."""


class StepPace:
    """Time between two steps that ran back to back, smoothed.

    Exponentially weighted, so that some twenty steps tell the pace: a single long prompt does not.

    Attributes:
        step_ms: the smoothed time; 0 until two steps ran back to back. It stays as it is while nothing runs.
    """

    _WEIGHT = 0.1

    def __init__(self) -> None:
        self.step_ms = 0.0
        self._last_s: float | None = None

    def step(self, now_s: float, *, more: bool) -> None:
        """A step ended at ``now_s`` (monotonic). ``more``: there is work left, so the next one follows at once."""
        if self._last_s is not None:
            took_ms = 1000 * (now_s - self._last_s)
            self.step_ms += (self._WEIGHT if self.step_ms else 1.0) * (took_ms - self.step_ms)
        self._last_s = now_s if more else None

    def pause(self) -> None:
        """What runs waits for something else than the engine: the time until the next step tells nothing."""
        self._last_s = None
