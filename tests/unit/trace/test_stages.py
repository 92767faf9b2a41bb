"""A request's way in pieces that add up."""

from dataclasses import replace

from hypothesis import given

from domain.trace.stages import AFTER_FIRST_TOKEN, STAGES, Stage, cut
from tests.unit.trace.making import BEGIN_US, RUN, STREAM, records


def test_a_streamed_answer_is_cut_at_every_moment_that_was_noted() -> None:
    way = cut(STREAM)
    lengths = {stage: way[stage] for stage in STAGES if way[stage]}
    assert lengths == {
        Stage.RECEIVE: 500,
        Stage.PROTECT: 200,
        Stage.COUNT: 300,
        Stage.ADMIT: 2_000,
        Stage.WINDOW: 100,
        Stage.TRANSIT: 1_900,
        Stage.CLAIM: 1_000,
        Stage.PREPARE: 1_000,
        Stage.ENGINE_QUEUE: 1_000,
        Stage.PREFILL: 50_000,
        Stage.RETURN: 1_000,
        Stage.RELAY: 1_000,
        Stage.DECODE: 98_000,
        Stage.FINISH: 3_000,
    }
    assert (way.ttft_us, way.duration_us) == (60_000, 161_000)


def test_a_whole_answer_has_no_time_to_first_token_and_decodes_before_it_returns() -> None:
    way = cut(replace(STREAM, stream=False, heard_us=BEGIN_US + 159_000, answered_us=BEGIN_US + 160_000))
    assert way.ttft_us is None
    assert (way[Stage.DECODE], way[Stage.RETURN], way[Stage.RELAY]) == (100_000, 1_000, 1_000)
    assert sum(way.lengths_us) == way.duration_us


def test_a_pull_waits_for_room_and_not_for_a_message() -> None:
    way = cut(replace(STREAM, runs=(replace(RUN, trigger="pull", rung_us=0, started_us=0),)))
    assert (way[Stage.ROOM], way[Stage.WINDOW], way[Stage.TRANSIT]) == (2_000, 0, 0)


def test_attempts_that_were_lost_before_the_first_token_are_told_apart() -> None:
    lost = replace(RUN, first_us=0, last_us=0, scheduled_us=0, queued_us=0, lost="engine_dead")
    later = replace(RUN, attempt=1, ready_us=BEGIN_US + 4_000)
    assert cut(replace(STREAM, runs=(lost, later)))[Stage.RETRY] == 1_000


def test_a_refusal_has_no_stages_beyond_the_gateway() -> None:
    way = cut(replace(STREAM, runs=(), heard_us=0, answered_us=0, status=429, ended_us=BEGIN_US + 3_500))
    assert way.ttft_us is None
    assert {stage for stage in STAGES if way[stage]} <= {
        Stage.RECEIVE,
        Stage.PROTECT,
        Stage.COUNT,
        Stage.ADMIT,
        Stage.FINISH,
    }
    assert sum(way.lengths_us) == way.duration_us == 3_500


@given(records())
def test_no_piece_is_negative_and_all_add_up_whatever_the_clocks_say(record: object) -> None:
    way = cut(record)  # type: ignore[arg-type]  # hypothesis gives no type
    assert min(way.lengths_us) >= 0
    if way.ttft_us is not None:
        before = sum(way[stage] for stage in STAGES if stage not in AFTER_FIRST_TOKEN)
        assert before == way.ttft_us
    assert sum(way.lengths_us) <= way.duration_us
