"""Runs wrk, which sends the same POST request over some connections in a closed loop, and reads what it measured."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.service import BenchmarkError

WRK = """
wrk.method = "POST"
%s
wrk.body = '%s'
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("summary %%d %%d %%f %%f %%d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL, and the body and the headers of each request."""

    url: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


def require_wrk() -> None:
    """Raises BenchmarkError where there is no wrk."""
    if shutil.which("wrk") is None:
        raise BenchmarkError("wrk is not on PATH; on Debian, install the package wrk")


def run_wrk(target: Target, connections: int, seconds: float) -> tuple[float, float, float, int]:
    """Measure with wrk; return (requests per second, p50 ms, p99 ms, failed)."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        named = {"Content-Type": "application/json", **target.headers}
        headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in named.items())
        script.write(WRK % (headers, target.body))
        script.flush()
        line = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", script.name, target.url]
        completed = subprocess.run(line, capture_output=True, text=True, check=False)
    summary = re.search(r"summary (\d+) (\d+) (\S+) (\S+) (\d+)", completed.stdout)
    if summary is None:
        raise BenchmarkError(f"wrk printed no summary: {completed.stdout[-300:]} {completed.stderr[-300:]}")
    requests, microseconds, p50, p99, failed = map(float, summary.groups())
    return requests / microseconds * 1e6, p50 / 1_000, p99 / 1_000, int(failed)
