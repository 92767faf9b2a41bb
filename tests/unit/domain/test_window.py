"""The window closes on time or size, whichever is first, at once while there is room; its capacity moves by rule."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.config import Config
from domain.qos import QosClass
from domain.window import Window, WindowLimits

LIMITS = st.builds(
    lambda wait, low, more: WindowLimits(wait, low + more, low),
    st.integers(1, 500),
    st.integers(1, 6),
    st.integers(0, 100),
)
# (ms since the one before, whether an engine has room when the item arrives)
ARRIVALS = st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=200)


class Gateway:
    """Drives a window as a gateway does: asks after each arrival, sleeps, closes when told to."""

    def __init__(self, limits: WindowLimits) -> None:
        self.window = Window(limits)
        self.waiting: list[float] = []
        self.waits: list[float] = []
        self.capacities = [self.window.capacity]

    def sleep_until(self, now: float) -> None:
        """Let a timer that runs out before ``now`` close the window; no room comes meanwhile."""
        if self.waiting:
            wait = self.window.wait_ms(self.waiting[-1], False)
            if self.waiting[-1] + wait <= now:
                self.close(self.waiting[-1] + wait)

    def arrive(self, now: float, has_room: bool) -> None:
        self.sleep_until(now)
        self.window.add(now)
        self.waiting.append(now)
        if self.window.wait_ms(now, has_room) == 0:
            self.close(now)

    def close(self, now: float) -> None:
        assert self.window.wait_ms(now, False) == 0 or self.window.wait_ms(now, True) == 0
        self.window.close(now)
        assert self.window.last_items == len(self.waiting)
        assert self.window.last_wait_ms == now - self.waiting[0]
        self.waits += [now - arrived for arrived in self.waiting]
        self.waiting = []
        self.capacities.append(self.window.capacity)


def driven(limits: WindowLimits, arrivals: list[tuple[int, bool]]) -> Gateway:
    gateway, now = Gateway(limits), 0
    for after_ms, has_room in arrivals:
        now += after_ms
        gateway.arrive(now, has_room)
    gateway.sleep_until(math.inf)
    return gateway


@given(LIMITS, ARRIVALS)
def test_no_item_is_lost_and_none_waits_longer_than_the_window(
    limits: WindowLimits, arrivals: list[tuple[int, bool]]
) -> None:
    gateway = driven(limits, arrivals)
    assert len(gateway.waits) == len(arrivals)
    assert gateway.window.items == 0
    assert max(gateway.waits) <= limits.max_wait_ms


@given(LIMITS, ARRIVALS)
def test_with_room_nobody_waits(limits: WindowLimits, arrivals: list[tuple[int, bool]]) -> None:
    gateway = driven(limits, [(after_ms, True) for after_ms, _ in arrivals])
    assert set(gateway.waits) == {0}


@given(LIMITS, st.integers(0, 10**13))
def test_the_item_that_fills_the_window_closes_it(limits: WindowLimits, now: int) -> None:
    window = Window(limits)
    for _ in range(window.capacity):
        assert window.wait_ms(now, False) > 0
        window.add(now)
    assert window.wait_ms(now, False) == 0
    assert window.close(now) == "size"


@given(LIMITS, ARRIVALS)
def test_the_capacity_keeps_within_its_bounds_and_moves_by_one_factor_at_most(
    limits: WindowLimits, arrivals: list[tuple[int, bool]]
) -> None:
    capacities = driven(limits, arrivals).capacities
    assert all(limits.min_items <= capacity <= limits.max_items for capacity in capacities)
    for before, after in itertools.pairwise(capacities):
        assert math.floor(before / 1.2) <= after <= math.ceil(before * 1.2)


def closed_by(window: Window, reason: str, now: float = 0.0) -> None:
    """Fill and close the window so that it closes by ``reason``; "empty" is by time, nearly empty."""
    items = {"size": window.capacity, "time": math.ceil(window.capacity / 2), "empty": 1, "room": 1}[reason]
    for _ in range(items):
        window.add(now)
    closed = window.close(now + (0 if reason in ("size", "room") else window.limits.max_wait_ms))
    assert closed == {"empty": "time"}.get(reason, reason)


@given(st.lists(st.sampled_from(["size", "time", "empty", "room"]), max_size=60))
def test_the_capacity_moves_after_three_windows_of_one_kind_and_only_then(reasons: list[str]) -> None:
    window = Window(WindowLimits(50, 100, 4))
    window.capacity = 30
    for at, reason in enumerate(reasons):
        before = window.capacity
        closed_by(window, reason)
        last = reasons[max(0, at - 2) : at + 1]
        if last == ["size"] * 3:
            assert window.capacity == min(100, math.ceil(before * 1.2))
        elif last == ["empty"] * 3:
            assert window.capacity == max(4, math.floor(before / 1.2))
        else:
            assert window.capacity == before


def test_a_window_that_shrank_to_its_least_grows_back_under_load() -> None:
    window = Window(WindowLimits(50, 100, 4))
    for _ in range(100):
        closed_by(window, "empty")
    assert window.capacity == 4
    for _ in range(100):
        closed_by(window, "size")
    assert window.capacity == 100


def test_room_that_comes_while_items_wait_closes_the_window_for_that_reason() -> None:
    window = Window(WindowLimits(50, 100, 4))
    window.add(1_000)
    assert window.wait_ms(1_020, False) == 30
    assert window.wait_ms(1_020, True) == 0
    assert window.close(1_020) == "room"
    assert (window.last_closed_by, window.last_items, window.last_wait_ms, window.closed) == ("room", 1, 20, 1)


def test_an_empty_window_waits_for_ever_and_cannot_be_closed() -> None:
    window = Window(WindowLimits(50, 100, 4))
    assert window.wait_ms(0, True) == math.inf
    with pytest.raises(ValueError, match="empty"):
        window.close(0)


@given(ARRIVALS)
def test_the_window_of_real_time_requests_never_waits_on_purpose(arrivals: list[tuple[int, bool]]) -> None:
    limits = WindowLimits.of(Config(), QosClass.P0)
    gateway = driven(limits, [(after_ms, False) for after_ms, _ in arrivals])
    assert set(gateway.waits) == {0}
    assert set(gateway.capacities) == {limits.max_items}


def test_the_settings_set_the_limits_of_each_class() -> None:
    config = Config()
    assert WindowLimits.of(config, QosClass.P1) == WindowLimits(50, 100, 4)
    assert WindowLimits.of(config, QosClass.P2) == WindowLimits(500, 100, 4)
    assert WindowLimits.of(Config(window_max_items=2), QosClass.P1) == WindowLimits(50, 2, 2)
