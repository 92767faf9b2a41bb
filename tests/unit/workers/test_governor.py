"""A worker takes what its engine really has room for, and leaves what more urgent classes may need."""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.config import Config
from domain.qos import QosClass
from workers.engines.port import Engine, Room
from workers.governor import PREFILL_STEPS, Governor
from workers.ready.item import ClaimedItem

SEQUENCES = 16
CONFIG = Config(max_num_seqs=SEQUENCES, max_num_batched_tokens=1000, reserve_p0_share=0.25, reserve_p2_share=0.125)
P0, P1, P2 = QosClass


@dataclass
class RoomOnly:
    """An engine of which only the room matters."""

    now: Room = field(default_factory=lambda: Room(SEQUENCES, SEQUENCES, 0, 0))

    def room(self) -> Room:
        return self.now


def governor(config: Config = CONFIG, room: Room | None = None) -> Governor:
    engine = RoomOnly(room) if room else RoomOnly()
    return Governor(config, cast("Engine", engine))


def item(request_id: str, qos_class: QosClass = P1, **fields: Any) -> ClaimedItem:
    plain = ClaimedItem(
        request_id=request_id,
        tenant="t",
        model="m",
        qos_class=qos_class,
        gateway_id="g1",
        endpoint="chat",
        stream=True,
        body=b"{}",
        cache_salt="",
        priority=10,
        sequences=1,
        attempt=0,
        batch_id="b-1",
        item_seq=0,
        delivered_text="",
        delivered_tokens=0,
        delivered_ids=b"",
        traceparent="",
        ready_ms=0,
        claimed_ms=0,
        prompt_tokens=10,
        need_tokens=20,
    )
    return replace(plain, **fields)


def start(one: Governor, qos_class: QosClass, count: int, now_ms: float = 0) -> None:
    for number in range(count):
        one.started(item(f"{qos_class}-{number}", qos_class), now_ms)


def seats(one: Governor) -> dict[QosClass, int]:
    return {room.qos_class: room.seats for room in one.seats()}


def test_before_p0_ever_came_only_p2_leaves_something_free() -> None:
    assert seats(governor()) == {P0: SEQUENCES, P1: SEQUENCES, P2: SEQUENCES - 2}


def test_the_reserve_follows_p0() -> None:
    one = governor()
    start(one, P0, 1)
    assert seats(one) == {P0: 15, P1: 14, P2: 13}  # P0's second sequence is kept, and for P2 those of P1
    one.ended("p0-0")
    assert seats(one)[P1] == SEQUENCES - 2  # room for the one that was here and one more
    one.observe(200_000, waiting=0)
    assert seats(one)[P1] == SEQUENCES


def test_p2_never_takes_the_last_sequences_and_an_aged_one_may_take_all_but_those_of_p0() -> None:
    one = governor()
    start(one, P0, 1)
    one.ended("p0-0")
    start(one, P2, SEQUENCES - 2)
    background = next(room for room in one.seats() if room.qos_class is P2)
    assert background.seats <= 0
    assert background.aged_seats == seats(one)[P1] == 0
    assert seats(one)[P0] == 2


def test_a_lower_cap_takes_seats_from_all_but_p0() -> None:
    one = governor()
    one.cap.cap = 8
    start(one, P1, 6)
    assert seats(one) == {P0: 10, P1: 2, P2: 1}


def test_a_worker_for_p0_has_room_for_nobody_else() -> None:
    one = governor(replace(CONFIG, worker_classes=("p0",)))
    assert one.rooms == "p0=16"
    assert one.no_room() == "p0=0"


def test_a_request_of_several_sequences_takes_as_many_seats() -> None:
    one = governor()
    one.started(item("many", sequences=5), 0)
    assert one.in_flight() == one.in_flight(P1) == 5
    assert seats(one)[P1] == SEQUENCES - 5
    one.ended("many")
    assert one.in_flight() == 0


def test_preemptions_lower_the_cap_and_with_it_the_room() -> None:
    one = governor()
    engine = cast("RoomOnly", one.engine)
    start(one, P1, SEQUENCES)
    one.observe(0, waiting=5)
    engine.now = replace(engine.now, preemptions=1)
    one.observe(250, waiting=5)
    assert one.cap.cap < SEQUENCES
    assert "KV cache" in str(one.facts()["cap_reason"])
    assert seats(one)[P1] < 0


def test_the_goal_is_that_of_the_most_urgent_class_that_runs() -> None:
    one = governor(replace(CONFIG, tpot_goal_p0_ms=20.0))
    engine = cast("RoomOnly", one.engine)
    engine.now = replace(engine.now, step_ms=50.0)
    start(one, P1, 8)
    one.observe(0, waiting=1)
    assert one.cap.cap == SEQUENCES
    one.started(item("urgent", P0), 300)
    one.observe(300, waiting=1)
    assert one.cap.cap < SEQUENCES


def test_kv_cache_that_answers_under_way_will_still_need_is_not_given_away() -> None:
    one = governor(room=Room(SEQUENCES, SEQUENCES, free_kv_blocks=50, kv_blocks=100, block_tokens=16))
    assert one.room(0).kv_tokens == 800
    one.started(item("a", prompt_tokens=100, need_tokens=400), 0)
    assert one.room(0).kv_tokens == 500
    one.made("a", 200)
    assert one.room(0).kv_tokens == 700
    one.made("a", 1000)  # longer than expected: nothing more is reckoned with
    assert one.room(0).kv_tokens == 800


def test_without_a_kv_cache_there_is_no_bound_of_it() -> None:
    assert governor().room(0).kv_tokens is None


def test_a_prompt_counts_as_prefill_until_its_first_token() -> None:
    one = governor()
    budget = PREFILL_STEPS * CONFIG.max_num_batched_tokens
    assert one.room(0).prefill_tokens == one.room(0).max_prefill_tokens == budget
    one.started(item("long", prompt_tokens=1500), 0)
    assert one.room(5_000).prefill_tokens == budget - 1500
    assert one.made("long", 1)
    assert not one.made("long", 2)
    assert one.room(5_000).prefill_tokens == budget


def test_the_prefill_of_a_whole_answer_is_reckoned_by_steps() -> None:
    one = governor(room=Room(SEQUENCES, SEQUENCES, 0, 0, step_ms=10.0))
    budget = PREFILL_STEPS * CONFIG.max_num_batched_tokens
    one.started(item("whole", stream=False, prompt_tokens=1000), 0)
    assert one.room(39).prefill_tokens == budget - 1000  # two steps for each thousand tokens, and two to begin with
    assert one.room(41).prefill_tokens == budget


def test_one_suspect_runs_at_a_time() -> None:
    one = governor()
    one.started(item("suspect", on_trial=True), 0)
    assert not one.room(0).may_try
    one.started(item("other"), 0)
    one.ended("other")
    assert not one.room(0).may_try
    one.ended("suspect")
    assert one.room(0).may_try


def test_an_engine_without_work_says_so() -> None:
    one = governor()
    assert one.room(0).idle
    one.started(item("a"), 0)
    assert not one.room(0).idle


@pytest.mark.parametrize("affinity", [True, False])
def test_affinity_can_be_switched_off(affinity: bool) -> None:
    found = governor(replace(CONFIG, affinity=affinity)).affinity()
    assert (found is not None) == affinity
    assert found is None or (found.balance == 2 and found.leave_ms[P0] == 0)


EVENTS = st.lists(st.tuples(st.sampled_from(QosClass), st.booleans(), st.integers(0, 60_000)), max_size=60)


@given(EVENTS, st.integers(1, 64), st.integers(1, 64))
def test_seats_never_exceed_the_engine_and_grow_with_urgency(
    events: list[tuple[QosClass, bool, int]], max_seqs: int, cap: int
) -> None:
    one = governor(replace(CONFIG, max_num_seqs=max_seqs))
    one.cap.cap = min(cap, max_seqs)
    now, running = 0, list[str]()
    for number, (qos_class, begins, after_ms) in enumerate(events):
        now += after_ms
        if begins and seats(one)[qos_class] > 0:
            one.started(item(str(number), qos_class), now)
            running.append(str(number))
        elif running:
            one.ended(running.pop(0))
        free = seats(one)
        assert 0 <= one.in_flight() <= max_seqs
        assert free[P0] == max_seqs - one.in_flight()
        assert free[P0] >= free[P1] >= free[P2]
        assert one.in_flight(P2) <= max(0, one.cap.cap - (1 if one.cap.cap > 1 else 0))
