"""What a worker tells of a run: which attempt it was, why there were others, and the span of the batch."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redis import Redis as SyncRedis

from domain.trace.record import Run
from domain.trace.spans import ATTEMPT, span_id
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from tracing import spans
from tracing.export import batch_ids
from workers import wire
from workers.ready.item import Claim
from workers.ready.ready_set import ReadySet
from workers.runner import Runner
from workers.running import Claiming

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TICKET = Claiming("ticket", rung_us=1, started_us=2)


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    spans.use(SimpleSpanProcessor(exporter))
    yield exporter
    spans.use(None)


def body(sim: str) -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"sim":"%b"}}' % sim.encode()


async def ended(exported: InMemorySpanExporter, count: int) -> tuple[ReadableSpan, ...]:
    for _ in range(200):
        if len(found := exported.get_finished_spans()) == count:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"expected {count} spans, found {exported.get_finished_spans()}")


async def told(store: SyncRedis, kind: bytes) -> list[Run]:
    """The runs that came with the events of one kind."""
    for _ in range(200):
        if found := [wire.unpack_run(event[-1]) for event in world.events(store) if event[3] == kind]:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"no {kind!r} was told")


async def claim(ready: ReadySet, store: SyncRedis) -> Claim:
    return await world.claim(ready, "w1", 8)


async def test_a_retry_tells_its_attempt_and_the_cause(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=body("die_once_after=2"), traceparent=TRACE))
    runner._start(await claim(ready, store), TICKET)
    for _ in range(200):
        if await ready.requeue("r1", "g1", 1, "two tokens", 2) == "ring":
            break
        await asyncio.sleep(0.02)
    runner._start(await claim(ready, store), TICKET)
    (run,) = await told(store, wire.DONE)
    assert (run.attempt, run.cause, run.batch_id, run.item_seq) == (1, "engine_error", "b-1", 0)
    assert (run.delivered_tokens, run.trigger, run.batch_items) == (2, "ticket", 1)
    assert 0 < run.claimed_us <= run.held_us + 1000
    assert run.held_us <= run.queued_us <= run.scheduled_us <= run.first_us <= run.last_us


async def test_a_batch_and_its_items_link_to_each_other(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis, exported: InMemorySpanExporter
) -> None:
    world.beat(store, "w1", 8)
    for name in ("r1", "r2"):
        await ready.admit(item(name, body=body("tokens=2"), traceparent=TRACE))
    runner._start(await claim(ready, store), TICKET)
    (batch,) = await ended(exported, 1)
    assert batch.name == "sluice.batch"
    assert batch.context is not None
    assert f"{batch.context.span_id:016x}" == batch_ids("b-1").span_id
    assert {f"{link.context.span_id:016x}" for link in batch.links} == {span_id(name, ATTEMPT) for name in ("r1", "r2")}
    assert dict(batch.attributes or {})["sluice.batch_items"] == 2


async def test_no_span_is_made_while_no_collector_is_named(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=body("tokens=2"), traceparent=TRACE))
    runner._start(await claim(ready, store), TICKET)
    for _ in range(200):
        if world.settlements(store):
            break
        await asyncio.sleep(0.02)
    assert world.settlements(store)[0]["outcome"] == "completed"
    assert not runner._telling
