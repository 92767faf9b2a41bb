"""Records as they travel and as they become trees."""

from dataclasses import replace

import msgpack
from hypothesis import given

from domain.trace.keep import EVERY, LATEST, SlowMark, why_kept
from domain.trace.record import Record, flat_record, read_record
from domain.trace.spans import ATTEMPT, REQUEST, span_id, tree
from tests.unit.trace.making import BEGIN_US, RUN, STREAM, records
from tracing.store.packing import pack_lengths, pack_moments, read_message, unpack_lengths, unpack_moments


@given(records())
def test_a_record_is_the_same_after_its_way(record: Record) -> None:
    assert read_record(msgpack.unpackb(msgpack.packb(flat_record(record)))) == record
    assert unpack_moments(pack_moments(record)) == record


def test_a_record_that_is_not_kept_whole_travels_without_its_timeline() -> None:
    assert read_record(flat_record(STREAM, whole=False)) == replace(STREAM, timeline=())


def test_a_message_holds_many_records_and_a_torn_one_all_before_the_tear() -> None:
    packed = b"".join(msgpack.packb([why, flat_record(STREAM)]) for why in ("slow", ""))
    assert [why for why, record in read_message(packed)] == ["slow", ""]
    assert [record for _, record in read_message(packed[:-3])] == [STREAM]
    assert list(read_message(b"\xc1")) == []


def test_lengths_of_an_hour_and_more_fit() -> None:
    assert unpack_lengths(pack_lengths([1, 3_600_000_000, 2**40])) == (1, 3_600_000_000, 2**32 - 1)


def test_the_tree_names_every_stage_under_its_attempt() -> None:
    spans = tree(STREAM)
    by_name = {span.name: span for span in spans}
    assert spans[0].name == REQUEST
    assert by_name["prefill"].parent_id == by_name[ATTEMPT].span_id == span_id(STREAM.request_id, ATTEMPT)
    assert by_name["prefill"].length_us == 50_000
    assert by_name[ATTEMPT].attributes["kv_hit_percent"] == 64.0
    assert by_name["relay"].parent_id == STREAM.span_id


def test_an_attempt_that_was_lost_says_why_and_the_next_one_links_to_it() -> None:
    lost = replace(RUN, first_us=0, last_us=0, lost="worker_lost")
    later = replace(RUN, attempt=1, cause="worker_lost", ready_us=BEGIN_US + 40_000, batch_id="b-2")
    first, second = (span for span in tree(replace(STREAM, runs=(lost, later))) if span.name == ATTEMPT)
    assert first.error == "worker_lost"
    assert second.links == (first.span_id,)
    assert second.attributes["rollback_cause"] == "worker_lost"


@given(records())
def test_every_span_has_its_parent_before_it_and_ends_after_it_began(record: Record) -> None:
    known = {record.parent_id}
    for span in tree(record):
        assert span.parent_id in known
        assert span.end_us >= span.start_us
        known.add(span.span_id)


def test_what_failed_or_was_retried_is_kept_whatever_the_sample() -> None:
    assert why_kept(replace(STREAM, status=502), 0.0, is_slow=False) == "failed"
    assert why_kept(replace(STREAM, runs=(RUN, replace(RUN, attempt=1))), 0.0, is_slow=False) == "retried"
    assert why_kept(STREAM, 0.0, is_slow=True) == "slow"
    assert why_kept(replace(STREAM, status=429), 0.0, is_slow=False) == ""


def test_the_trace_id_decides_the_sample() -> None:
    low, high = replace(STREAM, trace_id="f" * 24 + "00000001"), replace(STREAM, trace_id="0" * 24 + "ffffffff")
    assert [why_kept(one, 0.5, is_slow=False) for one in (low, high)] == ["sampled", ""]
    assert why_kept(high, 1.0, is_slow=False) == "sampled"


def test_of_thousands_under_one_trace_each_draws_its_own_lot() -> None:
    ids = [f"00000000-0000-4000-8000-{number * 0x1000_0000:012x}" for number in range(16)]
    kept = [why_kept(replace(STREAM, request_id=one), 0.25, is_slow=False, shares_trace=True) for one in ids]
    assert kept == ["sampled"] * 4 + [""] * 12


def test_the_slowest_twentieth_of_a_kind_is_slow() -> None:
    mark = SlowMark()
    quick = [replace(STREAM, ended_us=BEGIN_US + 61_000 + number) for number in range(LATEST)]
    assert not any(mark.is_slow(record) for record in quick[: EVERY - 1])
    for record in quick:
        mark.is_slow(record)
    assert mark.is_slow(replace(STREAM, ended_us=BEGIN_US + 500_000))
    assert not mark.is_slow(replace(STREAM, ended_us=BEGIN_US + 60_500))
    assert not mark.is_slow(replace(STREAM, model="other", ended_us=BEGIN_US + 900_000))
    assert not mark.is_slow(replace(STREAM, runs=(), ended_us=BEGIN_US + 900_000))
