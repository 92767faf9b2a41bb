"""Where the time of a start went."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Timeline:
    """Phases in the order in which they ended.

    Attributes:
        earlier: name and wall seconds of what came before this program, one after the other.
        phases: the same of its own, which overlap.
    """

    earlier: list[tuple[str, float]] = field(default_factory=list)
    phases: list[tuple[str, float]] = field(default_factory=list)

    def add(self, name: str, duration_s: float) -> None:
        """Note a phase that has ended."""
        self.phases.append((name, duration_s))

    def table(self, own_s: float) -> list[str]:
        """One line a phase, then the total, which is what came before and ``own_s`` seconds."""
        total_s = sum(duration_s for _, duration_s in self.earlier) + own_s
        rows = [*self.earlier, *self.phases, ("total wall time", total_s)]
        width = max(len(name) for name, _ in rows)
        return [f"  {name:<{width}}  {duration_s:7.1f} s" for name, duration_s in rows]


def read_times(path: Path) -> list[tuple[str, float]]:
    """Phases that a program before this one measured: a JSON object of name to seconds.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{path} does not hold an object of phase to seconds.")
    return [(str(name), float(duration_s)) for name, duration_s in content.items()]
