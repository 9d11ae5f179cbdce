"""The spans of a process that answers.

    POST /v1/models/{model}:feedback ............. the request, or a call of gRPC
      commit ..................................... until its events are in the log: online.offset
      until served ............................... from the acknowledgement to the first version that has learned them and answers
        learn, publish ........................... by the learner (learning.py)
        adopt .................................... loading and swapping in that version

A span that waits for a version is in memory only, and so is lost with the process.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context

from online.errors import describe_error
from online.plugins.traces.channel import TracedOffsets, find_channel, send
from online.plugins.traces.provider import PROPAGATOR, SCOPE, annotate
from online.telemetry import Annotate, Tracer

MAX_WAITING = 1_000  # traced requests of one model that no version has learned yet


@dataclass(frozen=True, slots=True)
class AdoptedVersion:
    """The version that answers. began_ns, ended_ns: of loading it."""

    version: int
    learned_until: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class WaitingFeedback:
    """The events of one request, first to last offset, and the span that ends when they are served."""

    first: int
    last: int
    span: Span


class ServingTracer(Tracer):
    """Records the requests of one process, and follows their feedback until it is served."""

    is_on = True

    def __init__(self, provider: TracerProvider, state: Path) -> None:
        self.provider, self.spans, self.channel = provider, provider.get_tracer(SCOPE), find_channel(state)
        self._served: dict[str, AdoptedVersion] = {}
        self._waiting = defaultdict[str, deque[WaitingFeedback]](deque)  # by model

    @contextmanager
    def request(self, name: str, headers: Mapping[str, str]) -> Iterator[Annotate]:
        """Open a span of the server."""
        with self.spans.start_as_current_span(
            name, read_parent(headers), SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield partial(annotate, span)
            except Exception as error:
                annotate(span, status=describe_error(error)[0])
                raise

    @contextmanager
    def span(self, name: str) -> Iterator[Annotate]:
        """Open a child of the present span; none where that is not recorded."""
        if not get_current_span().is_recording():
            yield lambda **attributes: None
            return
        with self.spans.start_as_current_span(name) as span:
            yield partial(annotate, span)

    def answer(
        self, name: str, headers: Iterable[tuple[bytes, bytes]], seconds: float, **attributes: str | int | bool
    ) -> None:
        """Record a span that is over."""
        ended_ns = time.time_ns()
        span = self.spans.start_span(
            name, read_parent(decode(headers)), SpanKind.SERVER, start_time=ended_ns - int(seconds * 1e9)
        )
        if span.is_recording():
            annotate(span, **attributes)
        span.end(ended_ns)

    def continue_elsewhere(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Replace the trace context of the caller by that of the present span."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier)
        if not carrier:
            return headers
        kept = [(name, value) for name, value in headers if name.decode("latin-1").lower() not in PROPAGATOR.fields]
        return [*kept, *((name.encode(), value.encode()) for name, value in carrier.items())]

    def acknowledge(self, model: str, offsets: Sequence[int]) -> None:
        """Open a span that ends when a version which has learned the offsets is served."""
        request = get_current_span()
        if not offsets or not request.is_recording():
            return
        first, last = min(offsets), max(offsets)
        annotate(request, model=model, first_offset=first, last_offset=last)
        span = self.spans.start_span("until served")
        annotate(span, model=model, offset=last)
        waiting, served = self._waiting[model], self._served.get(model)
        if len(waiting) >= MAX_WAITING:
            give_up(waiting.popleft().span, "too many traced requests wait for a version")
        waiting.append(WaitingFeedback(first, last, span))
        if served is not None and last <= served.learned_until:  # the learner was faster than the answer
            self._finish(model, served)

    def serve(self, model: str, version: int, learned_until: int, began_ns: int) -> None:
        """End the spans that have waited for this version, and let the learner add what it has done."""
        self._served[model] = served = AdoptedVersion(version, learned_until, began_ns, time.time_ns())
        if self._waiting[model]:
            self._finish(model, served)

    def _finish(self, model: str, served: AdoptedVersion) -> None:
        waiting, self._waiting[model] = self._waiting[model], deque()
        for each in waiting:
            if each.last > served.learned_until:
                self._waiting[model].append(each)
                continue
            span = each.span
            adopt = self.spans.start_span("adopt", set_span_in_context(span, Context()), start_time=served.began_ns)
            annotate(adopt, model=model, version=served.version)
            adopt.end(served.ended_ns)
            annotate(span, version=served.version, learned_until=served.learned_until)
            send(self.channel, TracedOffsets(model, each.first, each.last, served.version, format_parent(span)))
            span.end()

    def close(self) -> None:
        """Give up what still waits, and send all."""
        for waiting in self._waiting.values():
            for each in waiting:
                give_up(each.span, "the service stopped before a version had learned it")
        self.provider.shutdown()


def read_parent(headers: Mapping[str, str]) -> Context:
    """Return the trace that headers continue; a new one where they name none."""
    return PROPAGATOR.extract(headers, Context())


def decode(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers of ASGI as text."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def format_parent(span: Span) -> str:
    """Return the header `traceparent` of what is part of a span."""
    carrier: dict[str, str] = {}
    PROPAGATOR.inject(carrier, set_span_in_context(span, Context()))
    return carrier["traceparent"]


def give_up(span: Span, reason: str) -> None:
    """End a span that no version has ended."""
    span.set_status(Status(StatusCode.ERROR, reason))
    span.end()
