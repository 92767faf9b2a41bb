"""A thread beside the ledger outlives what goes wrong in its turns."""

import threading

import pytest
from redis.exceptions import RedisError

from workers.settlement import side_thread
from workers.settlement.side_thread import SideThread

pytestmark = pytest.mark.django_db(transaction=True)


class Fragile(SideThread):
    """Fails in its first two steps, in a known way and in another one."""

    def __init__(self) -> None:
        super().__init__("fragile")
        self.done: list[str] = []
        self.is_through = threading.Event()

    def resume(self) -> None:
        self.done.append("resume")

    def step(self) -> int:
        if self.done == ["resume"]:
            raise RedisError("away")
        if self.done == ["resume", "resume"]:
            raise KeyError("unforeseen")
        self.done.append("step")
        self._stop.wait(0.01)
        return 1

    def forget(self) -> None:
        self.done.append("forget")
        self.is_through.set()


def test_it_begins_anew_after_a_failure_and_forgets_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_thread, "RETRY_S", 0.01)
    monkeypatch.setattr(side_thread, "PRUNE_EVERY_S", 0.0)
    thread = Fragile()
    thread.start()
    assert thread.is_through.wait(20)
    thread.stop()
    assert thread.done[:5] == ["resume", "resume", "resume", "step", "forget"]
