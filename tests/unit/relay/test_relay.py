"""The relay takes every piece once and in order, whatever comes twice, late or not at all."""

import asyncio
from dataclasses import replace

import pytest

from domain.outcome import Outcome
from domain.trace.record import Run
from domain.usage import Usage
from gateway.relay import Relay
from workers import wire


def frame(sequence: int, data: bytes = b"{}", attempt: int = 0, ids: tuple[int, ...] = ()) -> wire.Event:
    return wire.unpack(wire.pack([["r", attempt, sequence, "F", data, 7, sequence + 1, wire.pack_ids(ids)]]))[0]


def event(*parts: object) -> wire.Event:
    return wire.unpack(wire.pack([["r", *parts]]))[0]


def test_frames_come_out_in_order_and_count_as_delivered() -> None:
    relay = Relay("r")
    for sequence in range(3):
        relay.accept(frame(sequence, b"%d" % sequence))
    assert relay.take() == [b"0", b"1", b"2"]
    assert relay.take() == []
    assert relay.delivered == [b"0", b"1", b"2"]
    assert relay.usage == Usage(7, 0, 3)


def test_the_ids_of_all_tokens_are_kept_over_all_attempts() -> None:
    relay = Relay("r")
    relay.accept(frame(0, ids=(5,)))
    relay.accept(event(1, -1, "L", "worker_lost"))
    relay.accept(wire.unpack(wire.pack([["r", 1, 0, "F", b"{}", 7, 3, wire.pack_ids((2**32 - 1, 7))]]))[0])
    assert wire.unpack_ids(relay.delivered_ids) == (5, 2**32 - 1, 7)


def test_ids_that_do_not_account_for_every_token_are_not_used() -> None:
    relay = Relay("r")
    relay.accept(frame(0, ids=(5,)))
    relay.accept(frame(1))
    assert relay.delivered_ids == b""


def test_a_whole_answer_that_starts_again_has_delivered_nothing() -> None:
    relay = Relay("r")
    relay.accept(frame(0, ids=(5,)))
    relay.take()
    relay.forget()
    assert (relay.delivered, relay.delivered_ids) == ([], b"")


def test_a_frame_that_comes_twice_is_seen_once() -> None:
    relay = Relay("r")
    for sequence in (0, 1, 0, 1, 2):
        relay.accept(frame(sequence, b"%d" % sequence))
    assert relay.take() == [b"0", b"1", b"2"]


def test_a_missing_frame_fails_the_answer_instead_of_leaving_a_hole() -> None:
    relay = Relay("r")
    relay.accept(frame(0))
    relay.accept(frame(2))
    assert relay.end is not None
    assert relay.end.outcome is Outcome.FAILED


def test_what_a_lost_attempt_still_says_is_ignored() -> None:
    relay = Relay("r")
    relay.accept(frame(0, b"a"))
    relay.accept(event(1, -1, "L", "worker_lost"))
    relay.accept(frame(1, b"late"))
    relay.accept(event(0, -1, "D", 7, 0, 9, "v"))
    relay.accept(frame(0, b"b", attempt=1))
    assert relay.take() == [b"a", b"b"]
    assert relay.end is None
    assert relay.lost_cause == "worker_lost"


def test_a_loss_that_is_told_twice_counts_once() -> None:
    relay = Relay("r")
    relay.accept(event(1, -1, "L", "worker_lost"))
    relay.lost_cause = ""
    relay.accept(event(1, -1, "L", "worker_lost"))
    assert relay.lost_cause == ""


def test_nothing_follows_the_end() -> None:
    relay = Relay("r")
    relay.accept(event(0, -1, "D", 7, 3, 9, "v"))
    relay.accept(frame(0))
    assert relay.take() == []
    assert relay.usage == Usage(7, 3, 9)


def test_an_error_keeps_its_status_and_object() -> None:
    relay = Relay("r")
    relay.accept(event(0, -1, "E", "rejected", 400, b'{"message":"too long"}'))
    assert relay.end is not None
    assert (relay.end.outcome, relay.end.status, relay.end.error) == (
        Outcome.REJECTED,
        400,
        b'{"message":"too long"}',
    )


async def test_silence_is_told_apart_from_news() -> None:
    relay = Relay("r")
    assert not await relay.changed(0.01)
    asyncio.get_running_loop().call_soon(relay.accept, frame(0))
    assert await relay.changed(10)


@pytest.mark.parametrize("what", ["leave", "fail"])
async def test_a_waiting_connection_wakes_when_the_answer_is_over(what: str) -> None:
    relay = Relay("r")
    stop = relay.leave if what == "leave" else lambda: relay.fail(Outcome.FAILED, 502)
    asyncio.get_running_loop().call_soon(stop)
    assert await relay.changed(10)


RUN = Run(worker_id="w1", batch_id="b-1", trigger="pull", first_us=5)


def told(sequence: int, run: bytes, attempt: int = 0) -> wire.Event:
    """A frame with what its worker tells of the attempt."""
    return wire.unpack(wire.pack([["r", attempt, sequence, "F", b"{}", 7, 1, b"", run]]))[0]


def test_what_is_told_of_an_attempt_at_its_end_replaces_what_was_told_with_its_first_frame() -> None:
    relay = Relay("r")
    relay.accept(told(0, wire.pack_run(RUN)))
    relay.accept(event(0, -1, "D", 7, 0, 1, "v", wire.pack_run(replace(RUN, last_us=9))))
    assert relay.runs == [replace(RUN, last_us=9)]
    assert relay.heard_us > 0


def test_an_attempt_that_was_lost_says_why_and_the_next_one_stands_beside_it() -> None:
    relay = Relay("r")
    relay.accept(event(1, -1, "L", "worker_lost", "w1", "b-1", 3))
    relay.accept(told(0, wire.pack_run(replace(RUN, attempt=1, batch_id="b-2")), attempt=1))
    first, second = relay.runs
    assert (first.lost, first.worker_id, first.batch_id, first.claimed_us) == ("worker_lost", "w1", "b-1", 3_000)
    assert (second.attempt, second.batch_id) == (1, "b-2")


def test_what_cannot_be_read_of_an_attempt_costs_nobody_the_answer() -> None:
    relay = Relay("r")
    relay.accept(told(0, b"\xc1 nonsense"))
    relay.accept(event(0, -1, "D", 7, 0, 1, "v", b"\xc1"))
    assert relay.take() == [b"{}"]
    assert relay.end is not None
    assert relay.runs == []
