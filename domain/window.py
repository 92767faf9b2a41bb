"""The window: how long requests that found no room are gathered before one message says that they wait (W1, W2)."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from domain.config import Config
from domain.qos import QosClass

ClosedBy = Literal["room", "size", "time"]

ADAPTATION = 1.2
RUN_LENGTH = 3
LEAST_CAPACITY = 4


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Bounds of a window.

    Attributes:
        max_wait_ms: a window closes this long after its first item at the latest; 0 never waits.
        max_items: the largest capacity, where a window starts.
        min_items: the smallest capacity.
    """

    max_wait_ms: int
    max_items: int
    min_items: int = 1

    @classmethod
    def of(cls, config: Config, qos_class: QosClass) -> "WindowLimits":
        """The bounds that the settings give to a class; P0 never waits on purpose."""
        max_wait_ms = {QosClass.P0: 0, QosClass.P1: config.window_ms, QosClass.P2: config.window_background_ms}
        max_items = config.window_max_items
        return cls(max_wait_ms[qos_class], max_items, min(LEAST_CAPACITY, max_items))


class Window:
    """Items of one model and class that arrived since the last close.

    It closes on time or size, whichever comes first, and at once while an engine has room. After ``RUN_LENGTH`` windows
    in a row that were closed by size its capacity grows by the factor ``ADAPTATION``; after as many that were closed by
    time less than half full it shrinks by it. A window that was closed by room says nothing about the capacity.

    Attributes:
        capacity: size at which it closes.
        items: items in it now.
        closed: how often it was closed.
        last_closed_by: why it was closed last; empty before the first time.
        last_items: items in the window that was closed last.
        last_wait_ms: how long the first item of that window waited.
    """

    def __init__(self, limits: WindowLimits) -> None:
        self.limits = limits
        self.capacity = limits.max_items
        self.items = 0
        self.closed = 0
        self.last_closed_by: ClosedBy | Literal[""] = ""
        self.last_items = 0
        self.last_wait_ms = 0.0
        self._opened_ms = 0.0
        self._signs: deque[int] = deque(maxlen=RUN_LENGTH)  # +1 overflowed, -1 underfilled, 0 neither

    def add(self, now_ms: float) -> None:
        """Put an item in; the first one opens the window."""
        if not self.items:
            self._opened_ms = now_ms
        self.items += 1

    def wait_ms(self, now_ms: float, has_room: bool) -> float:
        """How long to wait before closing, if nothing else happens; 0 to close now, infinity when it is empty."""
        if not self.items:
            return math.inf
        if has_room or self.items >= self.capacity:
            return 0.0
        return max(0.0, self._opened_ms + self.limits.max_wait_ms - now_ms)

    def close(self, now_ms: float) -> ClosedBy:
        """Empty the window, adapt the capacity, and say what closed it.

        Raises:
            ValueError: it is empty.
        """
        if not self.items:
            raise ValueError("An empty window cannot be closed.")
        reason = self._reason(now_ms)
        self._adapt(reason)
        self.closed += 1
        self.last_closed_by, self.last_items = reason, self.items
        self.last_wait_ms = now_ms - self._opened_ms
        self.items = 0
        return reason

    def _reason(self, now_ms: float) -> ClosedBy:
        if self.items >= self.capacity:
            return "size"
        return "time" if now_ms >= self._opened_ms + self.limits.max_wait_ms else "room"

    def _adapt(self, reason: ClosedBy) -> None:
        if not self.limits.max_wait_ms:
            return  # it never gathers, so its fill says nothing
        underfilled = reason == "time" and self.items < self.capacity / 2
        self._signs.append(1 if reason == "size" else -1 if underfilled else 0)
        run = sum(self._signs)
        if run == RUN_LENGTH:
            self.capacity = min(self.limits.max_items, math.ceil(self.capacity * ADAPTATION))
        elif run == -RUN_LENGTH:
            self.capacity = max(self.limits.min_items, math.floor(self.capacity / ADAPTATION))
