"""How many kernels were launched when, by which process, and under which name."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

WINDOW_US = 100_000
"""Launches are counted by tenths of a second."""

TRITON, DRIVER = "triton", "driver"

MOST_NAMES = 200
"""Names that one counter tells apart."""

OTHERS = "others"
"""Stands for all further names."""

MOST_COUNTS = 5_000
"""Counts that wait to be taken; launches beyond are dropped."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of one name by one process in one window.

    Attributes:
        from_us: when the window began, microseconds since 1970; it is ``WINDOW_US`` long.
        pid: the process that launched.
        layer: who saw it: ``TRITON`` or ``DRIVER``.
        name: of the kernel (Triton), or of the stream as ``0x...`` (driver).
        count: how many, one at least.
    """

    from_us: int
    pid: int
    layer: str
    name: str
    count: int


class LaunchCounter:
    """Counts launches of one layer. Bounded in names and in what waits, whatever comes.

    Attributes:
        dropped: launches that were not counted because too many counts waited.
    """

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self._names: set[str] = set()
        self._counts: dict[tuple[int, int, str], int] = {}
        self.dropped = 0

    def add(self, at_us: int, pid: int, name: str) -> None:
        """One launch."""
        if name not in self._names:
            if len(self._names) < MOST_NAMES:
                self._names.add(name)
            else:
                name = OTHERS
        key = (at_us - at_us % WINDOW_US, pid, name)
        counts = self._counts
        if key in counts:
            counts[key] += 1
        elif len(counts) < MOST_COUNTS:
            counts[key] = 1
        else:
            self.dropped += 1

    def take(self) -> list[Launches]:
        """What was counted since the last call. A window that is under way then comes in two parts."""
        counts, self._counts = self._counts, {}
        return [Launches(at_us, pid, self._layer, name, count) for (at_us, pid, name), count in counts.items()]


_FIELDS = tuple(one.name for one in fields(Launches))


def flat_launches(launches: Launches) -> list[Any]:
    """Launches as a list, for a message or a store."""
    return [getattr(launches, name) for name in _FIELDS]


def read_launches(flat: Sequence[Any]) -> Launches:
    """The launches that :func:`flat_launches` made; values that a later release added are left out.

    Raises:
        TypeError, ValueError: it is none.
    """
    return Launches(**dict(zip(_FIELDS, flat, strict=False)))
