"""The in-flight cap falls when the engine suffers, rises when it holds work back, and is otherwise left alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain.cap import CapSample, InFlightCap

CALM = CapSample(now_ms=0, in_flight=32, waiting=10, step_ms=20, goal_ms=0, preemptions_total=0, kv_use=0.5)
SAMPLES = st.lists(
    st.builds(
        CapSample,
        now_ms=st.integers(0, 3_000),  # since the one before
        in_flight=st.integers(0, 40),
        waiting=st.integers(0, 5),
        step_ms=st.floats(0, 200),
        goal_ms=st.sampled_from([0.0, 50.0]),
        preemptions_total=st.integers(0, 3),
        kv_use=st.floats(0, 1),
        reserved=st.integers(0, 8),
    ),
    max_size=60,
)


class ModelledEngine:
    """An engine under endless load whose step takes ``a + b * in_flight`` ms, sampled twice a second."""

    def __init__(self, cap: InFlightCap, a: float, b: float) -> None:
        self.cap, self.a, self.b = cap, a, b
        self.now_ms = 0

    def run(self, samples: int, goal_ms: float) -> list[int]:
        """The cap after each sample."""
        caps = []
        for _ in range(samples):
            self.now_ms += 500
            in_flight = self.cap.cap
            step_ms = self.a + self.b * in_flight
            self.cap.observe(replace(CALM, now_ms=self.now_ms, in_flight=in_flight, step_ms=step_ms, goal_ms=goal_ms))
            caps.append(self.cap.cap)
        return caps


@given(st.integers(1, 64), st.integers(1, 64), SAMPLES)
def test_the_cap_keeps_within_its_bounds_and_moves_up_by_one_down_by_half_at_most(
    max_seqs: int, min_seqs: int, samples: list[CapSample]
) -> None:
    cap, now = InFlightCap(max_seqs, min_seqs), 0.0
    assert cap.cap == max_seqs
    for sample in samples:
        before = cap.cap
        now += sample.now_ms
        cap.observe(replace(sample, now_ms=now))
        assert min(min_seqs, max_seqs) <= cap.cap <= max_seqs
        assert before // 2 <= cap.cap <= before + 1


@given(SAMPLES)
def test_decreases_lie_two_seconds_apart_so_that_one_burst_counts_once(samples: list[CapSample]) -> None:
    cap, now, decreased = InFlightCap(64, 1), 0.0, -2_000.0
    for sample in samples:
        before = cap.cap
        now += sample.now_ms
        cap.observe(replace(sample, now_ms=now))
        if cap.cap < before:
            assert now - decreased >= 2_000
            decreased = now


@given(st.floats(0, 40), st.floats(0.5, 5), st.floats(10, 200))
def test_the_cap_settles_where_the_goal_for_time_per_token_is_met(a: float, b: float, goal_ms: float) -> None:
    engine = ModelledEngine(InFlightCap(64, 2), a, b)
    caps = engine.run(400, goal_ms)[200:]
    knee = max((n for n in range(65) if a + b * n <= goal_ms), default=0)  # the most sequences that meet the goal
    assert max(caps) <= max(2, min(64, knee + 1))
    assert min(caps) >= max(2, min(64, int(0.85 * knee) - 1))


@given(st.floats(0, 40), st.floats(0.5, 5), st.floats(10, 200))
def test_the_cap_recovers_fully_once_the_pressure_ends(a: float, b: float, goal_ms: float) -> None:
    engine = ModelledEngine(InFlightCap(64, 2), a, b)
    engine.run(200, goal_ms)
    assert engine.run(200, 0)[-1] == 64
    assert engine.cap.reason == "at the engine's limit of 64"


@given(st.lists(st.tuples(st.floats(0, 500), st.integers(0, 50), st.floats(0, 1)), max_size=40), st.booleans())
def test_an_idle_engine_changes_nothing(seen: list[tuple[float, int, float]], lowered: bool) -> None:
    cap = InFlightCap(32, 4)
    if lowered:
        cap.observe(replace(CALM, kv_use=0.99))
    before = cap.cap
    for at, (step_ms, preemptions, kv_use) in enumerate(seen):
        idle = CapSample(10_000 + at * 1_000, 0, 0, step_ms, 50, preemptions, kv_use)
        cap.observe(idle)
        assert cap.cap == before


@given(st.integers(1, 500))
def test_how_fast_the_cap_rises_does_not_depend_on_how_often_it_is_asked(every_ms: int) -> None:
    cap, now = InFlightCap(32, 4), 0
    cap.observe(replace(CALM, in_flight=1, kv_use=0.99))
    while now < 2_000 + 500 * 8:
        now += every_ms
        cap.observe(replace(CALM, now_ms=now, in_flight=cap.cap))
    assert 16 + 4 <= cap.cap <= 16 + 9


@given(st.integers(5, 28), st.integers(1, 100))
def test_a_cap_that_holds_nothing_back_does_not_rise(in_flight: int, seconds: int) -> None:
    cap = InFlightCap(32, 4)
    cap.observe(replace(CALM, kv_use=0.99))
    assert cap.cap == 27
    for second in range(3, 3 + seconds):
        cap.observe(replace(CALM, now_ms=second * 1_000, in_flight=27, waiting=0))
        cap.observe(replace(CALM, now_ms=second * 1_000, in_flight=min(25, in_flight), waiting=9))
    assert cap.cap == 27


def test_a_cap_whose_last_places_are_reserved_counts_as_reached() -> None:
    cap = InFlightCap(32, 4)
    cap.observe(replace(CALM, kv_use=0.99))
    cap.observe(replace(CALM, now_ms=5_000, in_flight=23, reserved=4))
    assert cap.cap == 28


def test_preemptions_count_by_their_increase_and_once_for_each_burst() -> None:
    cap = InFlightCap(32, 4)
    cap.observe(replace(CALM, preemptions_total=7))  # what happened before we looked is no news
    assert cap.cap == 32
    cap.observe(replace(CALM, now_ms=500, preemptions_total=9))
    cap.observe(replace(CALM, now_ms=1_000, preemptions_total=12))
    assert cap.cap == 27
    cap.observe(replace(CALM, now_ms=3_000, preemptions_total=13))
    assert cap.cap == 22  # of the 27 that ran
    cap.observe(replace(CALM, now_ms=9_000, in_flight=22, preemptions_total=0))  # the engine was started anew
    assert cap.cap == 23


def test_an_odd_sample_of_a_nearly_idle_engine_costs_half_at_most() -> None:
    cap = InFlightCap(32, 4)
    cap.observe(replace(CALM, in_flight=1, step_ms=500, goal_ms=50))
    assert cap.cap == 16


def test_what_just_ended_still_counts_as_running_for_the_time_it_took() -> None:
    cap = InFlightCap(32, 4)
    cap.observe(replace(CALM, in_flight=32, step_ms=49, goal_ms=50))
    cap.observe(replace(CALM, now_ms=500, in_flight=2, step_ms=51, goal_ms=50))
    assert cap.cap == 27


def test_the_reason_tells_an_operator_what_happened_and_when() -> None:
    cap = InFlightCap(32, 4)
    assert cap.reason == "at the engine's limit of 32"
    cap.observe(replace(CALM, step_ms=64, goal_ms=50))
    assert cap.reason == "27 of 32: time per token was 64 ms, over the goal of 50 ms, 0 s ago"
    cap.observe(replace(CALM, now_ms=2_000, in_flight=27, kv_use=0.98))
    cap.observe(replace(CALM, now_ms=4_000, in_flight=20, waiting=0))
    assert cap.reason == "22 of 32: the engine ran out of KV cache 2 s ago"
