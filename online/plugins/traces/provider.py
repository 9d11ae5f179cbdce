"""The provider of one process: which spans are recorded, what they are called, and where they are sent.

Everything of it is set by the variables of OpenTelemetry: OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_SERVICE_NAME.
"""

import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from online import __version__

SCOPE = "online"  # of our instrumentation
PROPAGATOR = TraceContextTextMapPropagator()
STATUS = "http.response.status_code"


def create_provider(process: str) -> TracerProvider:
    """Return the provider of a process, which sends its spans in a thread. process: such as `learner` or `worker-0`."""
    facts: dict[str, str | int] = {
        "service.name": "online",
        "service.version": __version__,
        "online.process": process,
        "process.pid": os.getpid(),
    }
    provider = TracerProvider(resource=Resource.create({**facts}).merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def annotate(span: Span, **attributes: str | int | bool) -> None:
    """Add attributes to a span, under our own prefix. `status` is that of HTTP: an error of the caller is none of the span."""
    span.set_attributes({STATUS if name == "status" else f"online.{name}": each for name, each in attributes.items()})
    if int(attributes.get("status", 0)) >= 500:
        span.set_status(StatusCode.ERROR)
