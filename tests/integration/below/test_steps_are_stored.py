"""Steps of engines are stored once, found by worker and time, and forgotten when they are old."""

import pytest
from redis import Redis

from domain.config import Config
from domain.trace.launches import DRIVER, WINDOW_US, Launches
from domain.trace.step import Step
from tracing.models import EngineSteps
from tracing.store.step_packing import pack_steps
from tracing.store.steps import (
    AT_ONCE,
    StepsMessage,
    find_launches,
    find_steps,
    prune_steps,
    store_steps,
)
from workers.settlement.steps import STREAM, StepKeeper

pytestmark = pytest.mark.django_db

SECOND = 1_000_000
NOON = 1_700_000_000 * SECOND
EVER = (0, 2 * NOON)


def message(steps: list[Step], launches: tuple[Launches, ...] = (), worker_id: str = "w1") -> StepsMessage:
    ends = [step.ended_us for step in steps] + [one.from_us + WINDOW_US for one in launches]
    return StepsMessage(worker_id, min(ends), max(ends), pack_steps(steps, launches))


def steps_from(begin_us: int, count: int) -> list[Step]:
    """One each 100 ms, without a pause between them."""
    return [Step(begin_us + (number + 1) * 100_000, 100_000, running=number) for number in range(count)]


def send(store: Redis, one: StepsMessage) -> None:
    store.xadd(STREAM, {"w": one.worker_id, "f": one.from_us, "t": one.to_us, "p": one.packed})


def test_steps_are_found_by_worker_and_time_in_their_order() -> None:
    minute = steps_from(NOON, 600)
    messages = {f"{start}-0": message(minute[start : start + 10]) for start in range(0, 600, 10)}
    store_steps({**messages, "other": message(steps_from(NOON, 10), worker_id="w2")})

    assert find_steps("w1", *EVER, limit=1_000) == minute
    assert find_steps("w1", *EVER, limit=7) == minute[:7]
    assert find_steps("w2", *EVER, limit=1_000) == minute[:10]
    assert find_steps("w3", *EVER, limit=1_000) == []


def test_a_step_belongs_to_every_moment_that_it_lasts() -> None:
    long = Step(NOON + 30 * SECOND, 20 * SECOND)
    store_steps({"1-0": message([long])})

    for begin_s, end_s, found in ((0, 10, []), (9, 11, [long]), (15, 16, [long]), (29, 40, [long]), (30, 40, [])):
        assert find_steps("w1", NOON + begin_s * SECOND, NOON + end_s * SECOND, limit=10) == found


def test_launches_are_found_beside_the_steps() -> None:
    launches = tuple(Launches(NOON + number * WINDOW_US, 7, DRIVER, "0x0", 3) for number in range(10))
    store_steps({"1-0": message([], launches), "2-0": message(steps_from(NOON, 2))})

    assert find_launches("w1", *EVER, limit=100) == list(launches)
    assert find_launches("w1", NOON + 250_000, NOON + 400_000, limit=100) == list(launches[2:4])
    assert find_launches("w1", *EVER, limit=4) == list(launches[:4])


def test_rows_span_full_seconds() -> None:
    store_steps({"1-0": message([Step(NOON + 1, 1), Step(NOON + SECOND + 1, 1)])})
    assert list(EngineSteps.objects.values_list("from_us", "to_us")) == [(NOON, NOON + 2 * SECOND)]


def test_a_message_that_comes_again_is_stored_once() -> None:
    one = message(steps_from(NOON, 3))
    store_steps({"1-0": one})
    store_steps({"1-0": one, "2-0": message(steps_from(NOON + SECOND, 3))})

    assert EngineSteps.objects.count() == 2


def test_messages_are_stored_and_leave_the_stream(store: Redis) -> None:
    keeper = StepKeeper(store, Config())
    send(store, message(steps_from(NOON, 3)))
    send(store, message(steps_from(NOON + SECOND, 3), worker_id="w2"))

    assert keeper.step() == 2
    assert store.xlen(STREAM) == 0
    assert len(find_steps("w1", *EVER, limit=10)) == len(find_steps("w2", *EVER, limit=10)) == 3


def test_a_message_that_could_not_be_stored_comes_again(store: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = StepKeeper(store, Config())
    send(store, message(steps_from(NOON, 3)))
    with monkeypatch.context() as patched:
        patched.setattr("workers.settlement.steps.store_steps", lambda _messages: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            keeper.step()

    assert keeper.step() == 1
    assert len(find_steps("w1", *EVER, limit=10)) == 3


def test_what_is_no_message_is_passed_over(store: Redis) -> None:
    store.xadd(STREAM, {"x": "y"})
    store.xadd(STREAM, {"w": "w1", "f": "soon", "t": "later", "p": b""})
    send(store, message(steps_from(NOON, 1)))

    assert StepKeeper(store, Config()).step() == 3
    assert (EngineSteps.objects.count(), store.xlen(STREAM)) == (1, 0)


def test_old_steps_are_forgotten() -> None:
    one = message(steps_from(NOON, 1))
    store_steps({str(number): one for number in range(AT_ONCE + 5)})
    store_steps({"late": message(steps_from(NOON + 100 * SECOND, 1))})

    assert prune_steps(NOON + 50 * SECOND) == AT_ONCE + 5
    assert prune_steps(NOON + 50 * SECOND) == 0
    assert EngineSteps.objects.count() == 1
