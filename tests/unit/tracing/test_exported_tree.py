"""A request's record as spans of a collector."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from domain.trace.record import Record
from tests.unit.trace.making import BEGIN_US, RUN, STREAM
from tracing import spans
from tracing.export import batch_ids, export


@pytest.fixture
def collector() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    spans.use(SimpleSpanProcessor(exporter), "sluice-test")
    yield exporter
    spans.use(None)


def exported(collector: InMemorySpanExporter, record: Record) -> dict[str, ReadableSpan]:
    export(record)
    return {span.name: span for span in collector.get_finished_spans()}


def test_nothing_is_made_where_nobody_takes_spans() -> None:
    assert not spans.are_on()
    export(STREAM)


def test_all_spans_of_a_request_are_one_trace_under_the_clients_span(collector: InMemorySpanExporter) -> None:
    found = exported(collector, replace(STREAM, parent_id="f" * 16))
    assert {f"{span.context.trace_id:032x}" for span in found.values() if span.context} == {STREAM.trace_id}
    root = found["chat m"]
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == "f" * 16
    assert (root.kind, root.start_time, root.end_time) == (
        SpanKind.SERVER,
        1000 * STREAM.received_us,
        1000 * STREAM.ended_us,
    )
    prefill, attempt = found["sluice.prefill"], found["sluice.attempt"]
    assert prefill.parent is not None
    assert attempt.context is not None
    assert prefill.parent.span_id == attempt.context.span_id


def test_names_follow_the_conventions_for_generative_ai(collector: InMemorySpanExporter) -> None:
    attributes = dict(exported(collector, STREAM)["chat m"].attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "m"
    assert attributes["gen_ai.usage.output_tokens"] == 11
    assert attributes["sluice.request_id"] == STREAM.request_id
    assert attributes["sluice.tenant_scope"] == "acme/p1"


def test_an_attempt_links_to_its_batch_and_to_the_attempt_before(collector: InMemorySpanExporter) -> None:
    lost = replace(RUN, first_us=0, last_us=0, lost="engine_dead")
    later = replace(RUN, attempt=1, batch_id="b-2", cause="engine_dead", ready_us=BEGIN_US + 40_000)
    export(replace(STREAM, runs=(lost, later)))
    first, second = (span for span in collector.get_finished_spans() if span.name == "sluice.attempt")
    assert not first.status.is_ok
    assert first.context is not None
    linked = {f"{link.context.span_id:016x}" for link in second.links}
    assert linked == {f"{first.context.span_id:016x}", batch_ids("b-2").span_id}
    attributes = dict(second.attributes or {})
    assert (attributes["sluice.retry_attempt"], attributes["sluice.rollback_cause"]) == (1, "engine_dead")


def test_a_request_that_failed_says_why(collector: InMemorySpanExporter) -> None:
    failed = replace(STREAM, status=502, outcome="failed", code="engine_failed")
    assert exported(collector, failed)["chat m"].status.description == "engine_failed"
