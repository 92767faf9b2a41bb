"""Records on their way to whoever stores them."""

from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as StoreAway

from domain.config import Config
from gateway import records as records_module
from gateway.records import MESSAGE_BYTES, Records
from tests.unit.trace.making import STREAM
from tracing.store.packing import read_message


class Store:
    """Takes messages, or is away."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.is_away = False

    async def xadd(self, _stream: str, fields: dict[str, bytes], **_options: Any) -> None:
        if self.is_away:
            raise StoreAway
        self.messages.append(fields["m"])


@pytest.fixture
def store() -> Store:
    return Store()


async def flush(records: Records, store: Store) -> None:
    await records.flush(cast("Redis", store))


async def test_many_records_leave_in_one_message(store: Store) -> None:
    records = Records(Config())
    for _ in range(50):
        records.give(STREAM)
    await flush(records, store)
    assert [len(list(read_message(message))) for message in store.messages] == [50]


async def test_long_timelines_leave_in_messages_that_are_not_too_long(store: Store) -> None:
    records = Records(Config(trace_sample=1))
    long = replace(STREAM, timeline=tuple((STREAM.heard_us + number, number) for number in range(2_000)))
    for _ in range(20):
        records.give(long)
    await flush(records, store)
    assert sum(len(list(read_message(message))) for message in store.messages) == 20
    assert max(map(len, store.messages)) < 2 * MESSAGE_BYTES


async def test_while_the_store_is_away_records_wait_in_their_order_up_to_a_bound(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "MAX_WAITING", 3)
    records = Records(Config())
    store.is_away = True
    for number in range(5):
        records.give(replace(STREAM, gateway_id=f"g{number}"))
        await flush(records, store)
    store.is_away = False
    await flush(records, store)
    told = [record.gateway_id for message in store.messages for _, record in read_message(message)]
    assert told == ["g0", "g1", "g2"]


async def test_nothing_is_recorded_where_that_is_switched_off(store: Store) -> None:
    records = Records(Config(trace_requests=False))
    records.give(STREAM)
    await flush(records, store)
    assert store.messages == []
