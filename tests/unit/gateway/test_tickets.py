"""One message speaks for all that arrives while no engine has room; with room, each leaves at once."""

import asyncio
from dataclasses import dataclass, field

import pytest

from domain.config import Config
from domain.qos import QosClass
from gateway.tickets import Tickets

P0, P1, P2 = QosClass
SHORT_MS, NEVER_MS, LIMIT_S = 20, 60_000, 5.0


@dataclass
class Bell:
    """Counts the messages that were published."""

    rung: list[tuple[str, QosClass]] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, model: str, qos_class: QosClass) -> None:
        self.rung.append((model, qos_class))
        self.heard.set()


def tickets(bell: Bell, **settings: int) -> Tickets:
    return Tickets(Config(**{"window_ms": NEVER_MS, "window_background_ms": NEVER_MS, **settings}), bell)  # type: ignore[arg-type]


@pytest.mark.parametrize("qos_class", QosClass)
async def test_with_room_every_request_rings_at_once(qos_class: QosClass) -> None:
    bell = Bell()
    ours = tickets(bell)
    for _ in range(3):
        ours.arrived("m", qos_class, has_room=True)
    assert bell.rung == [("m", qos_class)] * 3


async def test_without_room_a_window_closes_by_time_and_rings_once_for_all() -> None:
    bell = Bell()
    ours = tickets(bell, window_ms=SHORT_MS)
    for _ in range(5):
        ours.arrived("m", P1, has_room=False)
    assert bell.rung == []
    await asyncio.wait_for(bell.heard.wait(), LIMIT_S)
    assert bell.rung == [("m", P1)]
    ((queue, facts),) = ours.changed()
    assert queue == "m:p1"
    assert (facts["last_closed_by"], facts["items"], facts["closed"]) == ("time", 5, 1)
    assert isinstance(facts["wait_ms"], float)
    assert facts["wait_ms"] >= SHORT_MS - 1


async def test_without_room_a_window_closes_by_size_and_starts_anew() -> None:
    bell = Bell()
    ours = tickets(bell, window_max_items=4)
    for _ in range(9):
        ours.arrived("m", P2, has_room=False)
    assert bell.rung == [("m", P2)] * 2
    assert [(facts["last_closed_by"], facts["capacity"]) for _, facts in ours.changed()] == [("size", 4)]


async def test_room_closes_a_window_that_was_gathering() -> None:
    bell = Bell()
    ours = tickets(bell)
    ours.arrived("m", P1, has_room=False)
    ours.arrived("m", P1, has_room=True)
    assert bell.rung == [("m", P1)]
    assert [(facts["last_closed_by"], facts["items"]) for _, facts in ours.changed()] == [("room", 2)]


async def test_a_window_that_was_closed_early_does_not_ring_again_when_its_time_is_up() -> None:
    bell = Bell()
    ours = tickets(bell, window_ms=SHORT_MS, window_background_ms=4 * SHORT_MS)
    ours.arrived("m", P1, has_room=False)
    ours.arrived("m", P1, has_room=True)
    ours.arrived("m", P2, has_room=False)
    bell.heard.clear()
    await asyncio.wait_for(bell.heard.wait(), LIMIT_S)
    assert bell.rung == [("m", P1), ("m", P2)]


async def test_p0_never_gathers() -> None:
    bell = Bell()
    ours = tickets(bell)
    ours.arrived("m", P0, has_room=False)
    assert bell.rung == []
    assert list(ours.changed()) == []
    ours.arrived("m", P0, has_room=True)
    assert bell.rung == [("m", P0)]
    assert [facts["items"] for _, facts in ours.changed()] == [1]


async def test_models_and_classes_have_windows_of_their_own() -> None:
    bell = Bell()
    ours = tickets(bell, window_max_items=2)
    for model, qos_class in (("a", P1), ("b", P1), ("a", P2)):
        ours.arrived(model, qos_class, has_room=False)
    assert bell.rung == []
    ours.arrived("b", P1, has_room=False)
    assert bell.rung == [("b", P1)]


async def test_what_operators_see_is_told_once() -> None:
    bell = Bell()
    ours = tickets(bell)
    ours.arrived("m", P1, has_room=True)
    assert [queue for queue, _ in ours.changed()] == ["m:p1"]
    assert list(ours.changed()) == []


async def test_a_timer_that_is_early_does_not_pass_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell()
    ours = tickets(bell, window_ms=SHORT_MS)
    loop = asyncio.get_running_loop()
    on_time = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda delay_s, *rest: on_time(max(0.0, delay_s - 0.005), *rest))
    ours.arrived("m", P1, has_room=False)
    await asyncio.wait_for(bell.heard.wait(), LIMIT_S)
    assert [facts["last_closed_by"] for _, facts in ours.changed()] == ["time"]
