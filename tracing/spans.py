"""Spans over OpenTelemetry; where no collector is named, nothing is made and nothing costs."""

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Attributes = Mapping[str, str | int | float | bool]

_propagator = TraceContextTextMapPropagator()
_tracer: trace.Tracer | None = None


def configure(otlp_endpoint: str, service: str) -> None:
    """Send spans to a collector; an empty endpoint switches them off.

    Args:
        otlp_endpoint: base address of OTLP over HTTP, such as ``http://127.0.0.1:4318``.
        service: name of this kind of process.

    Raises:
        ImportError: the exporter is not installed; it comes with an engine's packages.
    """
    if not otlp_endpoint:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=f"{otlp_endpoint.rstrip('/')}/v1/traces")
    use(BatchSpanProcessor(exporter), service)


def use(processor: SpanProcessor | None, service: str = "sluice") -> None:
    """Hand spans to ``processor``; None switches them off."""
    global _tracer
    if processor is None:
        _tracer = None
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("sluice")


def start(name: str, traceparent: str, attributes: Attributes) -> Span | None:
    """Begin a span under the one that ``traceparent`` names; None while spans are off."""
    if _tracer is None:
        return None
    parent = _propagator.extract({"traceparent": traceparent})
    return _tracer.start_span(name, context=parent, kind=SpanKind.CONSUMER, attributes=attributes)


def end(span: Span | None, attributes: Attributes, error: str = "") -> None:
    """End a span with what became of it."""
    if span is None:
        return
    span.set_attributes(attributes)
    if error:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end()
