"""Records for tests."""

from hypothesis import strategies as st

from domain.trace.record import Record, Run

BEGIN_US = 1_760_000_000_000_000

RUN = Run(
    worker_id="w1",
    batch_id="b-1",
    item_seq=1,
    batch_items=4,
    model_version="1.0.0-abc",
    trigger="ticket",
    rung_us=BEGIN_US + 3_100,
    started_us=BEGIN_US + 5_000,
    ready_us=BEGIN_US + 2_000,
    claimed_us=BEGIN_US + 5_000,
    held_us=BEGIN_US + 6_000,
    queued_us=BEGIN_US + 7_000,
    scheduled_us=BEGIN_US + 8_000,
    first_us=BEGIN_US + 58_000,
    last_us=BEGIN_US + 158_000,
    steps=11,
    prompt_tokens=100,
    cached_tokens=64,
)

STREAM = Record(
    request_id="0123456789abcdef-made",
    trace_id="0123456789abcdef0123456789abcdef",
    span_id="1111111111111111",
    tenant="acme",
    qos_class="p1",
    model="m",
    endpoint="chat",
    stream=True,
    gateway_id="g1",
    outcome="completed",
    status=200,
    completion_tokens=11,
    received_us=BEGIN_US,
    asked_us=BEGIN_US + 500,
    looked_up_us=BEGIN_US + 700,
    counted_us=BEGIN_US + 1_000,
    admitted_us=BEGIN_US + 3_000,
    heard_us=BEGIN_US + 59_000,
    answered_us=BEGIN_US + 60_000,
    ended_us=BEGIN_US + 161_000,
    runs=(RUN,),
    timeline=((BEGIN_US + 59_000, 1), (BEGIN_US + 160_000, 11)),
)

_moments = st.one_of(st.just(0), st.integers(BEGIN_US - 5_000, BEGIN_US + 200_000))


@st.composite
def runs(draw: st.DrawFn, attempt: int) -> Run:
    """Any run, its moments in no order."""
    names = ("rung", "started", "ready", "claimed", "held", "queued", "scheduled", "first", "last")
    return Run(
        attempt=attempt,
        trigger=draw(st.sampled_from(["ticket", "pull", ""])),
        lost=draw(st.sampled_from(["", "engine_dead"])),
        **{f"{name}_us": draw(_moments) for name in names},
    )


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record, its moments in no order: clocks differ, messages are lost."""
    names = ("asked", "looked_up", "counted", "admitted", "heard", "answered", "ended")
    return Record(
        request_id="r",
        trace_id="0" * 32,
        span_id="1" * 16,
        stream=draw(st.booleans()),
        status=draw(st.sampled_from([200, 429, 502])),
        received_us=BEGIN_US,
        runs=tuple(draw(runs(number)) for number in range(draw(st.integers(0, 3)))),
        **{f"{name}_us": draw(_moments) for name in names},
    )
