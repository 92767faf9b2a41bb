"""The span of a run says which attempt it was and why there were others."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redis import Redis as SyncRedis

from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from tracing import spans
from workers.ready.ready_set import ReadySet
from workers.runner import Runner

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


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


async def test_a_retry_tells_its_attempt_and_the_cause_under_the_clients_trace(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis, exported: InMemorySpanExporter
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=body("die_once_after=2"), traceparent=TRACE))
    runner._start(await world.claim(ready, "w1", 8))
    (first,) = await ended(exported, 1)
    assert await ready.requeue("r1", "g1", 1, "two tokens", 2) == "ring"
    runner._start(await world.claim(ready, "w1", 8))
    _, second = await ended(exported, 2)
    for span in (first, second):
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == TRACE[3:-3]
    one, two = dict(first.attributes or {}), dict(second.attributes or {})
    assert (one["sluice.retry_attempt"], one["sluice.rollback_cause"], one["sluice.outcome"]) == (0, "", "given_back")
    assert not first.status.is_ok
    assert (two["sluice.retry_attempt"], two["sluice.rollback_cause"]) == (1, "engine_error")
    assert (two["sluice.batch_id"], two["sluice.item_seq"], two["sluice.delivered_tokens"]) == ("b-1", 0, 2)
    assert (two["sluice.outcome"], two["gen_ai.request.model"]) == ("completed", "m")


async def test_no_span_is_made_while_no_collector_is_named(
    runner: Runner, ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    world.beat(store, "w1", 8)
    await ready.admit(item("r1", body=body("tokens=2"), traceparent=TRACE))
    assert spans.start("x", TRACE, {}) is None
    runner._start(await world.claim(ready, "w1", 8))
    for _ in range(200):
        if world.settlements(store):
            break
        await asyncio.sleep(0.02)
    assert world.settlements(store)[0]["outcome"] == "completed"
