"""As quick as the servers that only serve? The same two models behind each, one process each, asked by wrk.

    python -m benchmarks.serving [--only 'ours; mlserver'] [--seconds 2] [--repeats 3]

784 numbers through a perceptron of 784-100-10, and 30 through a linear classifier, one input a request, over 1, 16 and 64
connections in a closed loop. Ours writes a row for every answer before it is given, which the peers do not: so it is measured
with (`recording`) and without. It also gives every label's probability, the version and the feedback's address; the others give
a label. `ceiling` is what one Python process can do at most: ASGI without a framework, msgspec, the model, under uvicorn, which
serves ours too, and beside it under granian.

A peer is run from an environment of its own, made where there is none yet; what it runs is in benchmarks/servers.
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import ROOT, Failed, running
from online.client import Client
from online.workspace import cache_folder

WIDTHS, CONNECTIONS = (784, 30), (1, 16, 64)
JUDGED = (16, 64)
START_S = 120
LESSONS = 100
FASTER, NEAR = 1.5, 0.8
PEERS: Mapping[str, Sequence[str]] = {
    "fastapi": ("fastapi", "uvicorn[standard]", "numpy", "msgspec"),
    "litserve": ("litserve==0.2.19", "numpy"),
    "mlserver": ("mlserver==1.7.1", "numpy"),
    "bentoml": ("bentoml==1.4.39", "numpy"),
    "ray": ("ray[serve]==2.60.0", "numpy"),
}
CEILING, OURS, RECORDING = "ceiling", "ours", "ours, recording"
BY_TWO, BY_GRANIAN = "ours, recording, 2 workers", "ceiling, granian"
SERVERS = (RECORDING, OURS, BY_TWO, CEILING, BY_GRANIAN, *PEERS)
GRANIAN = ("granian", "numpy", "msgspec")
NAMES = {784: "perceptron", 30: "rows"}
CONFIG = """
[[models]]
name = "perceptron"
kind = "tower"
options = { input = "vector", size = 784, hidden = [100] }
[[models]]
name = "rows"
kind = "classifier"
options = { input = "vector", size = 30, scale = 4.0 }
"""
WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '%s'
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("told %%d %%d %%f %%f %%d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is asked for an answer of a width, and what a request looks like."""

    url: str
    body: str


@dataclass(frozen=True, slots=True)
class Cell:
    server: str
    width: int
    connections: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


def row_of(width: int) -> list[float]:
    draw = random.Random(width)
    return [round(draw.uniform(-1, 1), 4) for _ in range(width)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# the servers


@contextmanager
def started(server: str) -> Iterator[dict[int, Target]]:
    """A server that answers, and how it is asked for each width."""
    if server in (OURS, RECORDING, BY_TWO):
        with running(("workers = 2\n" if server == BY_TWO else "") + CONFIG) as service:
            url = f"http://{service.host}:{service.port}"
            teach(url)
            more = {"record": False} if server == OURS else {}
            yield {
                width: Target(
                    f"{url}/v1/models/{NAMES[width]}:predict", json.dumps({"instances": [row_of(width)], **more})
                )
                for width in WIDTHS
            }
    else:
        port = free_port()
        targets = {width: target_of(server, port, width) for width in WIDTHS}
        with peer(server, port) as process:
            for target in targets.values():
                wait_for(server, process, target)
            yield targets


def teach(url: str) -> None:
    draw = random.Random(1)
    for width, name in NAMES.items():
        labels = 10 if width == 784 else 2
        with Client(url, name) as client:
            items = [
                {"input": [round(draw.uniform(-1, 1), 4) for _ in range(width)], "label": str(n % labels)}
                for n in range(LESSONS)
            ]
            offset = client.feedback(items)[-1]["offset"]
            client.predict([row_of(width)], min_offset=offset, timeout_ms=30_000)


def target_of(server: str, port: int, width: int) -> Target:
    if server == "mlserver":
        asked = {"name": "features", "shape": [1, width], "datatype": "FP32", "data": row_of(width)}
        return Target(f"http://127.0.0.1:{port}/v2/models/network/infer", json.dumps({"inputs": [asked]}))
    return Target(f"http://127.0.0.1:{port}/predict", json.dumps({"features": row_of(width)}))


@contextmanager
def peer(server: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    packages = {CEILING: "fastapi", BY_GRANIAN: "granian"}.get(server, server)
    python = environment(packages, GRANIAN if server == BY_GRANIAN else PEERS[packages])
    program = "ceiling" if server in (CEILING, BY_GRANIAN) else server
    folder = ROOT / "benchmarks" / "servers"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "BENTOML_DO_NOT_TRACK": "True", "RAY_USAGE_STATS_ENABLED": "0"}
    variables.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [python, f"{program}_server.py", str(port), *(["granian"] if server == BY_GRANIAN else [])],
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        except Failed as error:
            log.seek(0)
            raise Failed(f"{error}; it said\n{log.read().decode(errors='replace')[-1_500:]}") from None
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """All of its processes, whatever they are doing."""
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def environment(name: str, packages: Sequence[str]) -> Path:
    """The python of a peer's environment, made where there is none yet."""
    folder, wanted = cache_folder() / "servers" / name, "\n".join(packages)
    done = folder / ".made"
    if not done.exists() or done.read_text() != wanted:
        say(f"{name}: making its environment ...")
        for line in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *packages],
        ):
            made = subprocess.run(line, capture_output=True, text=True, check=False)
            if made.returncode:
                raise Failed(f"no environment for {name}: {made.stderr.strip()[-500:]}")
        done.write_text(wanted)
    return folder / "bin" / "python"


def wait_for(server: str, process: "subprocess.Popen[bytes]", target: Target) -> None:
    give_up, told = time.monotonic() + START_S, "nothing"
    while time.monotonic() < give_up and process.poll() is None:
        try:
            answer = httpx.post(target.url, content=target.body, headers={"Content-Type": "application/json"})
        except httpx.TransportError:
            pass
        else:
            if answer.status_code == 200:
                return
            told = f"{answer.status_code}: {answer.text[:200]}"
        time.sleep(0.2)
    raise Failed(f"{server} did not answer ({told})")


# the load


def asked(target: Target, connections: int, seconds: float) -> tuple[float, float, float, int]:
    """(requests a second, p50 ms, p99 ms, failed), by wrk."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK % target.body)
        script.flush()
        line = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", script.name, target.url]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = re.search(r"told (\d+) (\d+) (\S+) (\S+) (\d+)", done.stdout)
    if found is None:
        raise Failed(f"wrk says {done.stdout[-300:]} {done.stderr[-300:]}")
    requests, microseconds, p50, p99, failed = map(float, found.groups())
    return requests / microseconds * 1e6, p50 / 1_000, p99 / 1_000, int(failed)


def measured(server: str, flags: Namespace) -> list[Cell]:
    cells = []
    with started(server) as targets:
        for width, target in targets.items():
            asked(target, 16, 1)  # warm
            for connections in CONNECTIONS:
                told = [asked(target, connections, flags.seconds) for _ in range(flags.repeats)]
                rate, p50, p99 = (percentile([each[place] for each in told], 50) for place in range(3))
                cells.append(Cell(server, width, connections, rate, p50, p99, sum(each[3] for each in told)))
    return cells


# what is told


def verdicts(cells: Sequence[Cell]) -> list[list[Any]]:
    at = {(cell.server, cell.width, cell.connections): cell for cell in cells}
    rows: list[list[Any]] = []
    for width in WIDTHS:
        for connections in JUDGED:
            found = {server: at.get((server, width, connections)) for server in SERVERS}
            peers = [cell for name in PEERS if (cell := found[name]) is not None]
            ours, plain, most = found[RECORDING], found[OURS], found[CEILING]
            where = f"{width} numbers, {connections} connections"
            if ours and peers:
                best = max(peers, key=lambda cell: cell.requests_per_s)
                ratio = ours.requests_per_s / best.requests_per_s
                told = verdict(ratio, FASTER, at_least=True)
                rows.append([f"recording / best peer ({best.server}), {where}", ratio, f">= {FASTER}", told])
                later = verdict(ours.p99_ms, best.p99_ms, " ms")
                rows.append([f"p99 recording, ms, {where}", ours.p99_ms, f"<= {best.p99_ms:.1f}", later])
            if plain and most:
                share = plain.requests_per_s / most.requests_per_s
                rows.append(
                    [f"not recording / ceiling, {where}", share, f">= {NEAR}", verdict(share, NEAR, at_least=True)]
                )
    return rows


def print_tables(cells: Sequence[Cell]) -> None:
    for width in WIDTHS:
        mine = [cell for cell in cells if cell.width == width]
        rows = []
        for server in dict.fromkeys(cell.server for cell in mine):
            by = {cell.connections: cell for cell in mine if cell.server == server}
            shown = [f"{c.requests_per_s:,.0f}  {c.p50_ms:.2f} / {c.p99_ms:.2f}" for c in by.values()]
            rows.append([server, *shown, sum(cell.failed for cell in by.values())])
        columns = ["", *(f"{number} connections" for number in CONNECTIONS), "failed"]
        table(f"{width} numbers: requests/s, p50 / p99 in ms", columns, rows)
    if judged := verdicts(cells):
        table("beside the others", ("figure", "value", "target", "verdict"), judged)


def main() -> int:
    made = parser(__doc__ or "")
    made.add_argument("--only", default="; ".join(SERVERS), help=f"of {'; '.join(SERVERS)}; separated by ';'")
    made.add_argument("--seconds", type=float, default=2, help="of each load (default 2)")
    made.add_argument("--repeats", type=int, default=3, help="of each load; medians are told (default 3)")
    flags = made.parse_args()
    if shutil.which("wrk") is None:
        raise Failed("wrk is not on PATH; Debian has it as the package wrk")
    wanted = [name.strip() for name in flags.only.split(";")]
    unknown = sorted(set(wanted) - set(SERVERS))
    if unknown:
        raise Failed(f"there is no server {unknown[0]!r}; there are {'; '.join(SERVERS)}")
    cells: list[Cell] = []
    for server in wanted:
        say(f"{server} ...")
        cells += measured(server, flags)
    if flags.json:
        print_json({"benchmark": "serving", "cells": [asdict(cell) for cell in cells]})
    else:
        print_tables(cells)
    return int(any(cell.failed for cell in cells if cell.server in (OURS, RECORDING)))


if __name__ == "__main__":
    command(main)
