"""How long to wait before a process that died is started again."""

from dataclasses import dataclass

FIRST_S = 0.2
LONGEST_S = 10.0
HEALTHY_AFTER_S = 30.0


@dataclass(slots=True)
class Backoff:
    """Waits 0.2 s, doubling to 10 s; a life of 30 s starts over.

    Attributes:
        failures: deaths in a row, none of which followed a life of 30 s.
    """

    failures: int = 0

    def next_s(self, lived_s: float) -> float:
        """Seconds to wait after a death that ended a life of ``lived_s`` seconds."""
        if lived_s >= HEALTHY_AFTER_S:
            self.failures = 0
        self.failures += 1
        # The exponent is bounded too: a process that dies for days must not overflow a float.
        return min(FIRST_S * 2.0 ** min(self.failures - 1, 10), LONGEST_S)
