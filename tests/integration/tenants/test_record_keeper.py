"""Records on a real Valkey and a real database: each request stored once, and found by any of its ids."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from django.conf import settings
from redis import Redis

from domain.trace.buckets import MINUTE_US
from domain.trace.record import Record, flat_record
from domain.trace.stages import STAGES, Stage
from tests.integration.tenants import ends
from tests.unit.trace.making import BEGIN_US, RUN
from tests.unit.trace.making import STREAM as ANSWERED
from tracing.models import RequestSum, StoredRequest
from tracing.store.packing import unpack_lengths
from tracing.store.pruning import prune
from tracing.store.reading import Selection, batch_mates, find, find_one, moments_of, samples
from tracing.store.writing import store as write
from workers.settlement import ledger as ledger_module
from workers.settlement.ledger import Ledger
from workers.settlement.records import GROUP, STREAM, RecordKeeper

pytestmark = pytest.mark.django_db(transaction=True)


def made(number: int, **fields: object) -> Record:
    trace_id = f"{number:08x}cafe" + "0" * 20
    request_id = f"{trace_id[:8]}-{trace_id[8:12]}-4000-8000-{number:012x}"
    moved = {
        name: getattr(ANSWERED, name) + number * 1_000
        for name in ("received_us", "asked_us", "looked_up_us", "counted_us", "admitted_us")
    }
    return replace(ANSWERED, request_id=request_id, trace_id=trace_id, **{**moved, **fields})  # type: ignore[arg-type]


def tell(redis: Redis, *records: tuple[str, Record]) -> None:
    packed = b"".join(msgpack.packb([why, flat_record(record)]) for why, record in records)
    redis.xadd(STREAM, {"m": packed})


@pytest.fixture
def keep(store: Redis, tmp_path: Path) -> Callable[[], RecordKeeper]:
    store.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    return lambda: RecordKeeper(store, replace(settings.SLUICE, data_dir=tmp_path))


def test_what_gateways_tell_is_stored_and_leaves_the_stream(store: Redis, keep: Callable[[], RecordKeeper]) -> None:
    tell(store, ("slow", made(1)), ("", made(2)))
    assert keep().step() == 1
    first, second = StoredRequest.objects.order_by("request_id")
    assert moments_of(first) == made(1)
    assert (second.kept, moments_of(second)) == ("", None)
    assert dict(zip(STAGES, unpack_lengths(second.lengths), strict=True))[Stage.PREFILL] == 50_000
    assert store.xlen(STREAM) == 0


def test_a_message_that_somebody_read_and_did_not_store_is_taken_over_and_stored_once(
    store: Redis, keep: Callable[[], RecordKeeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, ("", made(1)))
    store.xreadgroup(GROUP, "died", {STREAM: ">"})
    write([("", made(1))])  # it had been written, but not acknowledged
    monkeypatch.setattr("workers.settlement.records.TAKE_OVER_MS", 0)
    assert keep().take_over() == 1
    assert StoredRequest.objects.count() == 1
    assert sum(RequestSum.objects.filter(period="h", measure="d").values_list("requests", flat=True)) == 1
    assert store.xlen(STREAM) == 0


def test_a_message_that_cannot_be_read_leaves_the_stream_too(store: Redis, keep: Callable[[], RecordKeeper]) -> None:
    store.xadd(STREAM, {"m": b"\xc1 nonsense"})
    tell(store, ("", made(1)))
    assert keep().step() == 2
    assert StoredRequest.objects.count() == 1
    assert store.xlen(STREAM) == 0


def test_sums_count_each_request_once_in_its_minute_hour_and_bucket() -> None:
    failed = made(2, status=502, outcome="failed", answered_us=0)
    write([("", made(1)), ("", failed)])
    write([("", made(1))])
    rows = RequestSum.objects.filter(period="m").order_by("measure", "bucket")
    assert list(rows.values_list("measure", "bucket", "requests", "errors")) == [("d", 1, 2, 1), ("t", 0, 1, 0)]
    assert {row.starts_us for row in rows} == {BEGIN_US - BEGIN_US % MINUTE_US}


def test_a_request_is_found_by_the_beginning_of_any_of_its_ids() -> None:
    write([("", made(1)), ("", made(2, runs=(replace(RUN, batch_id="b-77f0"),)))])
    wanted = made(2)
    for text in (
        wanted.request_id,
        wanted.request_id[:10],
        wanted.trace_id,
        wanted.trace_id[:9],
        "b-77",
        f"  {wanted.request_id.upper()} ",
    ):
        assert [row.request_id for row in find(Selection(text=text))] == [wanted.request_id], text
    assert len(find(Selection(text="acme"))) == 2
    assert find(Selection(text="%")) == find(Selection(text="zz")) == []


def test_filters_narrow_a_search_and_the_newest_come_first() -> None:
    write(
        [("", made(number)) for number in range(1, 5)] + [("", made(9, tenant="other", status=502, outcome="failed"))]
    )
    assert [row.started_us for row in find(Selection(tenant="acme"))] == [BEGIN_US + 1_000 * n for n in (4, 3, 2, 1)]
    assert [row.tenant for row in find(Selection(errors_only=True))] == ["other"]
    assert len(find(Selection(from_us=BEGIN_US + 2_000, to_us=BEGIN_US + 4_000))) == 2
    assert find(Selection(model_version="none")) == []
    assert len(find(Selection(), limit=3)) == 3


def test_the_requests_of_one_batch_find_each_other() -> None:
    write([("", made(number)) for number in (1, 2, 3)])
    row = find_one(made(2).request_id)
    assert row is not None
    assert [mate.request_id for mate in batch_mates(row)] == [made(1).request_id, made(3).request_id]


def test_an_attribution_sees_answered_streams_alone() -> None:
    refused = made(3, status=429, outcome="refused", runs=(), answered_us=0)
    write([("", made(1)), ("", made(2, stream=False)), ("", refused)])
    assert [one.worker_id for one in samples(Selection())] == ["w1"]
    assert len(samples(Selection(), "duration")) == 2


def test_requests_that_are_too_old_are_forgotten() -> None:
    write([("", made(number)) for number in (1, 2, 3)])
    assert prune(BEGIN_US + 10_000, keep_us=7_500) == 2
    assert StoredRequest.objects.count() == 1
    assert RequestSum.objects.filter(period="m").exists()
    prune(BEGIN_US + 4 * 3_600_000_000, keep_us=10**15)
    assert not RequestSum.objects.filter(period="m").exists()
    assert RequestSum.objects.filter(period="h").exists()


def test_a_request_whose_gateway_died_is_recorded_by_its_settlement(
    store: Redis, keep: Callable[[], RecordKeeper]
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    keeper = keep()
    told = ends.tell(store, 1, outcome="gateway_lost", status=502, trace=trace) + ends.tell(store, 1)
    ledger = Ledger(store, "one", on_lost=keeper.lost)
    store.xgroup_create(ledger_module.STREAM, ledger_module.GROUP, id="0", mkstream=True)
    assert ledger.step(b">") == 2
    assert keeper.step() == 1
    row = StoredRequest.objects.get()
    assert (row.request_id, row.outcome, row.status) == (told[0], "gateway_lost", 502)
    assert (row.trace_id, row.kept) == ("0af7651916cd43dd8448eb211c80319c", "failed")
    record = moments_of(row)
    assert record is not None
    assert record.span_id == "b7ad6b7169203331"
