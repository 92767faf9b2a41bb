"""Spans over OpenTelemetry: made when everything about them is known, with ids of our own choosing.

Where no collector is named, nothing is made and nothing costs. The ids follow from what a span is about
(:func:`domain.trace.spans.span_id`), so that one process can name the span of another before that one has made it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from tracing import logs

log = logs.get(__name__)

Attributes = Mapping[str, str | int | float | bool]

_SCOPE = InstrumentationScope("sluice")

_processor: SpanProcessor | None = None
_resource = Resource.create({})


@dataclass(frozen=True, slots=True)
class Ids:
    """Where a span stands: 32 and 16 hex digits."""

    trace_id: str
    span_id: str

    def context(self) -> SpanContext:
        """The same as OpenTelemetry takes it."""
        sampled = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(self.trace_id, 16), int(self.span_id, 16), is_remote=True, trace_flags=sampled)


def configure(otlp_endpoint: str, service: str) -> None:
    """Send spans to a collector, and those of Celery's tickets too; an empty endpoint switches all off.

    Args:
        otlp_endpoint: base address of OTLP over HTTP, such as ``http://127.0.0.1:4318``.
        service: name of this kind of process.

    Tracing fails open: where the exporter is not installed, one line says so. It comes with an engine's packages.
    """
    if not otlp_endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.error("otlp_exporter_missing", hint="pip install opentelemetry-exporter-otlp-proto-http")
        return
    from opentelemetry.instrumentation.celery import CeleryInstrumentor

    use(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{otlp_endpoint.rstrip('/')}/v1/traces")), service)
    provider = TracerProvider(resource=_resource)
    assert _processor is not None
    provider.add_span_processor(_processor)
    CeleryInstrumentor().instrument(tracer_provider=provider)  # type: ignore[no-untyped-call]  # it comes without types


def use(processor: SpanProcessor | None, service: str = "sluice") -> None:
    """Hand spans to ``processor``; None switches them off."""
    global _processor, _resource
    _processor, _resource = processor, Resource.create({"service.name": service})


def are_on() -> bool:
    """Whether somebody takes spans."""
    return _processor is not None


def emit(
    name: str,
    ids: Ids,
    parent_id: str,
    start_us: int,
    end_us: int,
    attributes: Attributes,
    links: Iterable[Ids] = (),
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    error: str = "",
) -> None:
    """Hand on one span that has ended.

    Args:
        name: of the span.
        ids: its own.
        parent_id: of the span above it in the same trace, or "".
        start_us, end_us: microseconds since 1970.
        attributes: what is known of it.
        links: spans that it has to do with.
        kind: OpenTelemetry's.
        error: what went wrong, or "".
    """
    if _processor is None:
        return
    span = ReadableSpan(
        name=name,
        context=ids.context(),
        parent=Ids(ids.trace_id, parent_id).context() if parent_id else None,
        resource=_resource,
        attributes=dict(attributes),
        links=[Link(one.context()) for one in links],
        kind=kind,
        status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
        start_time=1000 * start_us,
        end_time=1000 * end_us,
        instrumentation_scope=_SCOPE,
    )
    _processor.on_end(span)


def close() -> None:
    """Send what waits; call it before the process ends."""
    if _processor is not None:
        _processor.shutdown()
