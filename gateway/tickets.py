"""Tickets: when a Celery message tells the workers that work waits.

While an engine has room a ticket leaves at once. While none has, what arrives is gathered in a window, and one message
speaks for all of it: engines that are busy claim by themselves as soon as something ends, so that message is only the
net below.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

from domain.config import Config
from domain.qos import QosClass
from domain.window import Window, WindowLimits
from tracing import metrics

Publish = Callable[[str, QosClass], None]


class Tickets:
    """The windows of one gateway process, one for each model and class. Use from one event loop."""

    def __init__(self, config: Config, publish: Publish) -> None:
        self._config, self.publish = config, publish
        self._windows: dict[tuple[str, QosClass], Window] = {}
        self._timers: dict[tuple[str, QosClass], asyncio.TimerHandle] = {}
        self._changed: set[tuple[str, QosClass]] = set()

    def arrived(self, model: str, qos_class: QosClass, *, has_room: bool) -> None:
        """An item was admitted for which no ticket is under way; ``has_room`` if some engine can take it now."""
        key = (model, qos_class)
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window(WindowLimits.of(self._config, qos_class))
        if not has_room and not window.limits.max_wait_ms:
            return  # nothing is gathered on purpose: who is busy claims by himself
        window.add(_now_ms())
        self._close_or_wait(key, has_room=has_room)

    def changed(self) -> Iterator[tuple[str, dict[str, str | int | float]]]:
        """Queues whose window was closed since the last call, with what operators see of it."""
        changed, self._changed = self._changed, set()
        for model, qos_class in changed:
            window = self._windows[model, qos_class]
            yield (
                f"{model}:{qos_class.value}",
                {
                    "capacity": window.capacity,
                    "last_closed_by": window.last_closed_by,
                    "items": window.last_items,
                    "wait_ms": round(window.last_wait_ms, 1),
                    "closed": window.closed,
                    "at": int(time.time() * 1000),
                },
            )

    def _close_or_wait(self, key: tuple[str, QosClass], *, has_room: bool) -> None:
        wait_ms = self._windows[key].wait_ms(_now_ms(), has_room)
        if wait_ms <= 0:
            self._close(key)
        elif key not in self._timers:
            self._timers[key] = asyncio.get_running_loop().call_later(wait_ms / 1000, self._look_again, key)

    def _look_again(self, key: tuple[str, QosClass]) -> None:
        del self._timers[key]
        self._close_or_wait(key, has_room=False)  # a loop's timers may be a little early

    def _close(self, key: tuple[str, QosClass]) -> None:
        timer = self._timers.pop(key, None)
        if timer:
            timer.cancel()
        window = self._windows[key]
        window.close(_now_ms())
        self._changed.add(key)
        qos_class = key[1].value
        metrics.window_wait.labels(qos_class).observe(window.last_wait_ms / 1000)
        metrics.window_items.labels(qos_class, window.last_closed_by).observe(window.last_items)
        self.publish(*key)


def _now_ms() -> float:
    return time.monotonic() * 1000
