"""Measures what traces cost: predictions and feedback per second without them, with one request in a hundred, and with each.

    python -m benchmarks.traces [--seconds 3] [--repeats 3]

One service of each sort runs, and they are measured in turn, so that other load affects all. The collector is a thread of this
process that reads what it gets and answers; the machine that serves does its work as well.
"""

import os
import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from unittest.mock import patch

import httpx

from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import VEC, Service, running_service
from benchmarks.wrk import Target, require_wrk, run_wrk

CONNECTIONS = 16
ROW = ",".join(["0.5"] * 30)
REQUESTS = {
    "predict": f'{{"instances": [[{ROW}]]}}',
    "feedback": f'{{"feedback": [{{"input": [{ROW}], "label": "a"}}]}}',
}
SAMPLERS: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "1 %": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"},
    "all": {"OTEL_TRACES_SAMPLER": "parentbased_always_on"},
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one sort of service did: medians of the repeats."""

    request: str
    traces: str
    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


class Collector(BaseHTTPRequestHandler):
    """Takes everything."""

    def do_POST(self) -> None:
        """Read the spans, and say that they have arrived."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def running_collector() -> Iterator[str]:
    """Run a collector; yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@contextmanager
def traced_service(collector: str, sampler: Mapping[str, str]) -> Iterator[Service]:
    """Run a service that sends traces to a collector, unless there is no sampler."""
    variables = {**sampler, "OTEL_EXPORTER_OTLP_ENDPOINT": collector} if sampler else {}
    with patch.dict(os.environ, variables), running_service(VEC) as service:
        yield service


def measure(services: Mapping[str, Service], request: str, seconds: float, repeats: int) -> list[Result]:
    """Measure one kind of request at each service in turn."""
    measured: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in services}
    for number in range(repeats):
        for name, service in services.items():
            say(f"{request}, traces {name}, {number + 1} of {repeats} ...")
            url = f"http://{service.host}:{service.port}/v1/models/vec:{request}"
            measured[name].append(run_wrk(Target(url, REQUESTS[request]), CONNECTIONS, seconds))
    return [summarize(request, name, rows) for name, rows in measured.items()]


def summarize(request: str, traces: str, rows: Sequence[tuple[float, float, float, int]]) -> Result:
    """Return the medians of what was measured at one service."""
    per_s, p50_ms, p99_ms, failed = zip(*rows, strict=True)
    return Result(request, traces, median(per_s), median(p50_ms), median(p99_ms), sum(failed))


def parse_flags() -> Namespace:
    """Return the flags of the command."""
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default 3)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each (default 3)")
    return parser.parse_args()


def main() -> int:
    """Run the benchmark."""
    flags = parse_flags()
    require_wrk()
    with ExitStack() as stack:
        collector = stack.enter_context(running_collector())
        services = {name: stack.enter_context(traced_service(collector, sampler)) for name, sampler in SAMPLERS.items()}
        for service in services.values():
            url = f"http://{service.host}:{service.port}/v1/models/vec:feedback"
            httpx.post(url, content=REQUESTS["feedback"], timeout=60).raise_for_status()
        results = [each for name in REQUESTS for each in measure(services, name, flags.seconds, flags.repeats)]
    if flags.json:
        print_json({"benchmark": "traces", "rows": [asdict(each) for each in results]})
    else:
        columns = ("request", "traces", "requests/s", "p50 ms", "p99 ms", "failed")
        rows = [(each.request, each.traces, each.per_s, each.p50_ms, each.p99_ms, each.failed) for each in results]
        table(f"traces: {CONNECTIONS} connections", columns, rows)
    return 0


if __name__ == "__main__":
    command(main)
