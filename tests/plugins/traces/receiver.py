"""A receiver of OTLP over HTTP, as a collector is one: it parses what it gets."""

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.support import until

Value = str | int | bool | float


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span, with the ids in hex. process: which one has sent it. is_error: whether its status is one."""

    name: str
    trace: str
    id: str
    parent: str
    began_ns: int
    ended_ns: int
    process: Value
    service: Value
    attributes: dict[str, Value]
    is_error: bool


class Receiver:
    """spans: all that have arrived. endpoint: what OTEL_EXPORTER_OTLP_ENDPOINT names."""

    def __init__(self) -> None:
        self.spans, self.endpoint = list[ReceivedSpan](), ""

    def of(self, trace: str, *names: str) -> list[ReceivedSpan] | None:
        """The spans of a trace, in the order of these names; None until each has come."""
        found = {span.name: span for span in self.spans if span.trace == trace}
        return [found[name] for name in names] if found.keys() >= {*names} else None

    def wait(self, trace: str, *names: str) -> list[ReceivedSpan]:
        found: list[ReceivedSpan] = until(lambda: self.of(trace, *names), 20, f"the spans {names}")
        return found


@contextmanager
def receive() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            receiver.spans += read_spans(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    receiver.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read_spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for group in request.resource_spans:
        resource = read_values(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                    process=resource["online.process"],
                    service=resource["service.name"],
                    attributes=read_values(span.attributes),
                    is_error=span.status.code == 2,
                )


def read_values(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    found = dict[str, Value]()
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        found[pair.key] = getattr(pair.value, kind) if kind else ""
    return found
