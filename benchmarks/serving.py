"""Compares the serving rate with other model servers: the same two models, one process each, measured by wrk.

    python -m benchmarks.serving [--only 'ours; mlserver'] [--seconds 2] [--repeats 3]

The models are a perceptron of 784-100-10 and a linear classifier of 30 numbers, one input per
request, over 1, 16 and 64 connections in a closed loop. Our service writes every answer to its
journal before it returns it, which the peers do not, so it is measured with (`recording`) and
without, alternately, with one worker and with two. It also returns the probability of every class
and the version; the peers return a class. `ceiling` is ASGI without a framework, msgspec and the
model, under uvicorn, whose protocol our service extends, and under granian.

Each peer runs in its own environment, created on the first run; its server is in benchmarks/servers.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import isnan
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import ROOT, BenchmarkError, Service, process_cpu_s, running_service
from benchmarks.wrk import Target, require_wrk, run_wrk
from online.client import Client
from online.io.cache import cache_folder

WIDTHS, CONNECTIONS = (784, 30), (1, 16, 64)
TARGET_CONNECTIONS = (16, 64)
START_S = 120
EXAMPLES = 100
PEER_RATIO_TARGET, CEILING_RATIO_TARGET, RECORDING_RATIO_TARGET, WORKERS_RATIO_TARGET = 1.5, 0.6, 0.9, 1.8
PEERS: Mapping[str, Sequence[str]] = {
    "fastapi": ("fastapi", "uvicorn[standard]", "numpy", "msgspec"),
    "litserve": ("litserve==0.2.19", "numpy"),
    "mlserver": ("mlserver==1.7.1", "numpy"),
    "bentoml": ("bentoml==1.4.39", "numpy"),
    "ray": ("ray[serve]==2.60.0", "numpy"),
}
CEILING, OURS, RECORDING = "ceiling", "ours", "ours, recording"
OURS_2, RECORDING_2, GRANIAN_CEILING = "ours, 2 workers", "ours, recording, 2 workers", "ceiling, granian"
OUR_WORKERS = {(OURS, RECORDING): 1, (OURS_2, RECORDING_2): 2}
SERVERS = (RECORDING, OURS, RECORDING_2, OURS_2, CEILING, GRANIAN_CEILING, *PEERS)
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


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the load. answering_us: processor time of an answer in the processes that answer; NaN for the peers."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    answering_us: float


@dataclass(frozen=True, slots=True)
class Cell(Run):
    """The medians of several runs, and all their failures."""

    server: str
    width: int
    connections: int


def row_of(width: int) -> list[float]:
    draw = random.Random(width)
    return [round(draw.uniform(-1, 1), 4) for _ in range(width)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# the servers


@contextmanager
def our_service(names: Sequence[str], workers: int) -> Iterator[tuple[Service, dict[str, dict[int, Target]]]]:
    """Run our service. Yields it, and the targets by name, with and without recording, and by width."""
    with running_service(f"workers = {workers}\n" + CONFIG) as service:
        url = f"http://{service.host}:{service.port}"
        teach(url)
        yield (
            service,
            {
                name: {width: our_target(url, width, is_recording=name in (RECORDING, RECORDING_2)) for width in WIDTHS}
                for name in names
            },
        )


def our_target(url: str, width: int, is_recording: bool) -> Target:
    body = {"instances": [row_of(width)], **({} if is_recording else {"record": False})}
    return Target(f"{url}/v1/models/{NAMES[width]}:predict", json.dumps(body))


@contextmanager
def running_peer(server: str) -> Iterator[dict[str, dict[int, Target]]]:
    """Run a peer. Yields its targets by width once it answers."""
    port = free_port()
    targets = {width: target_of(server, port, width) for width in WIDTHS}
    with peer(server, port) as process:
        for target in targets.values():
            wait_for(server, process, target)
        yield {server: targets}


def teach(url: str) -> None:
    draw = random.Random(1)
    for width, name in NAMES.items():
        classes = 10 if width == 784 else 2
        with Client(url, name) as client:
            items = [
                {"input": [round(draw.uniform(-1, 1), 4) for _ in range(width)], "label": str(n % classes)}
                for n in range(EXAMPLES)
            ]
            offset = client.feedback(items)[-1]["offset"]
            client.predict([row_of(width)], min_offset=offset, timeout_ms=30_000)


def target_of(server: str, port: int, width: int) -> Target:
    if server == "mlserver":
        tensor = {"name": "features", "shape": [1, width], "datatype": "FP32", "data": row_of(width)}
        return Target(f"http://127.0.0.1:{port}/v2/models/network/infer", json.dumps({"inputs": [tensor]}))
    return Target(f"http://127.0.0.1:{port}/predict", json.dumps({"features": row_of(width)}))


@contextmanager
def peer(server: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    packages = {CEILING: "fastapi", GRANIAN_CEILING: "granian"}.get(server, server)
    python = environment(packages, GRANIAN if server == GRANIAN_CEILING else PEERS[packages])
    program = "ceiling" if server in (CEILING, GRANIAN_CEILING) else server
    folder = ROOT / "benchmarks" / "servers"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "BENTOML_DO_NOT_TRACK": "True", "RAY_USAGE_STATS_ENABLED": "0"}
    variables.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [python, f"{program}_server.py", str(port), *(["granian"] if server == GRANIAN_CEILING else [])],
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        except BenchmarkError as error:
            log.seek(0)
            raise BenchmarkError(
                f"{error}; its log ends with\n{log.read().decode(errors='replace')[-1_500:]}"
            ) from None
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill all processes of a server."""
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def environment(name: str, packages: Sequence[str]) -> Path:
    """Return the interpreter of a peer's environment, which is created if it is missing."""
    folder, wanted = cache_folder() / "servers" / name, "\n".join(packages)
    done = folder / ".made"
    if not done.exists() or done.read_text() != wanted:
        say(f"{name}: creating its environment ...")
        for line in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *packages],
        ):
            completed = subprocess.run(line, capture_output=True, text=True, check=False)
            if completed.returncode:
                raise BenchmarkError(
                    f"the environment of {name} could not be created: {completed.stderr.strip()[-500:]}"
                )
        done.write_text(wanted)
    return folder / "bin" / "python"


def wait_for(server: str, process: "subprocess.Popen[bytes]", target: Target) -> None:
    deadline, last_answer = time.monotonic() + START_S, "none"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            answer = httpx.post(target.url, content=target.body, headers={"Content-Type": "application/json"})
        except httpx.TransportError:
            pass
        else:
            if answer.status_code == 200:
                return
            last_answer = f"{answer.status_code}: {answer.text[:200]}"
        time.sleep(0.2)
    raise BenchmarkError(f"{server} did not answer (last answer: {last_answer})")


# the load


def measure(
    targets: Mapping[str, Mapping[int, Target]], flags: Namespace, service: Service | None = None
) -> list[Cell]:
    """Measure the targets of one service, alternately, so that other load affects all of them. service: if it is ours."""
    cells = []
    for width in WIDTHS:
        for of_name in targets.values():
            run_wrk(of_name[width], 16, 1)  # warm-up
        for connections in CONNECTIONS:
            runs: dict[str, list[Run]] = {name: [] for name in targets}
            for _ in range(flags.repeats):
                for name, of_name in targets.items():
                    runs[name].append(load(of_name[width], connections, flags.seconds, service))
            cells += [summarise(name, width, connections, of_name) for name, of_name in runs.items()]
    return cells


def load(target: Target, connections: int, seconds: float, service: Service | None) -> Run:
    before = answering_cpu_s(service)
    rate, p50_ms, p99_ms, failed = run_wrk(target, connections, seconds)
    return Run(rate, p50_ms, p99_ms, failed, 1e6 * (answering_cpu_s(service) - before) / max(1, rate * seconds))


def answering_cpu_s(service: Service | None) -> float:
    """Return the processor seconds of the processes that answer so far."""
    pids = [] if service is None else [service.pid, *service.children("work")]
    return sum(map(process_cpu_s, pids)) if pids else float("nan")


def summarise(server: str, width: int, connections: int, runs: Sequence[Run]) -> Cell:
    of = {each.name: [getattr(run, each.name) for run in runs] for each in fields(Run)}
    failed = sum(of.pop("failed"))
    medians = {name: percentile(values, 50) for name, values in of.items()}
    return Cell(server=server, width=width, connections=connections, failed=failed, **medians)


# results


def compare_with_targets(cells: Sequence[Cell]) -> list[list[Any]]:
    at = {(cell.server, cell.width, cell.connections): cell for cell in cells}
    rows: list[list[Any]] = []
    for width in WIDTHS:
        for connections in TARGET_CONNECTIONS:
            by_server = {server: at.get((server, width, connections)) for server in SERVERS}
            peers = [cell for name in PEERS if (cell := by_server[name]) is not None]
            ours, plain, ceiling = by_server[RECORDING], by_server[OURS], by_server[CEILING]
            ours_2, plain_2 = by_server[RECORDING_2], by_server[OURS_2]
            case = f"{width} numbers, {connections} connections"
            if ours and peers:
                best = max(peers, key=lambda cell: cell.requests_per_s)
                ratio = ours.requests_per_s / best.requests_per_s
                met = verdict(ratio, PEER_RATIO_TARGET, at_least=True)
                rows.append([f"recording / best peer ({best.server}), {case}", ratio, f">= {PEER_RATIO_TARGET}", met])
                later = verdict(ours.p99_ms, best.p99_ms, " ms")
                rows.append([f"p99 recording, ms, {case}", ours.p99_ms, f"<= {best.p99_ms:.1f}", later])
            rows += compare(f"not recording / ceiling, {case}", plain, ceiling, CEILING_RATIO_TARGET)
            rows += compare(f"recording / not recording, {case}", ours, plain, RECORDING_RATIO_TARGET)
            rows += compare(f"the same with two workers, {case}", ours_2, plain_2, RECORDING_RATIO_TARGET)
            rows += compare(f"two workers / one, recording, {case}", ours_2, ours, WORKERS_RATIO_TARGET)
    return rows


def compare(what: str, cell: Cell | None, other: Cell | None, target: float) -> list[list[Any]]:
    """A row about the ratio of two rates; none where one of them was not measured."""
    if cell is None or other is None:
        return []
    ratio = cell.requests_per_s / other.requests_per_s
    return [[what, ratio, f">= {target}", verdict(ratio, target, at_least=True)]]


def same(cell: Cell, other: Cell) -> bool:
    """Whether only the number of connections differs."""
    return (cell.server, cell.width) == (other.server, other.width)


def print_tables(cells: Sequence[Cell]) -> None:
    for width in WIDTHS:
        of_width = [cell for cell in cells if cell.width == width]
        rows = []
        for server in dict.fromkeys(cell.server for cell in of_width):
            by = {cell.connections: cell for cell in of_width if cell.server == server}
            figures = [f"{c.requests_per_s:,.0f}  {c.p50_ms:.2f} / {c.p99_ms:.2f}" for c in by.values()]
            rows.append([server, *figures, sum(cell.failed for cell in by.values())])
        columns = ["", *(f"{number} connections" for number in CONNECTIONS), "failed"]
        table(f"{width} numbers: requests/s, p50 / p99 in ms", columns, rows)
    ours = [cell for cell in cells if not isnan(cell.answering_us)]
    if ours:
        used = {
            (cell.server, cell.width): [f"{each.answering_us:.1f}" for each in ours if same(each, cell)]
            for cell in ours
        }
        columns = ["", *(f"{number} connections" for number in CONNECTIONS)]
        shown = [[f"{server}, {width} numbers", *figures] for (server, width), figures in used.items()]
        table("processor time of one answer, us, without the processes that copy and learn", columns, shown)
    if target_rows := compare_with_targets(cells):
        table("compared with the peers", ("figure", "value", "target", "verdict"), target_rows)


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", default="; ".join(SERVERS), help=f"servers, separated by ';': {'; '.join(SERVERS)}")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each load (default 2)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each load, whose medians are printed (default 3)"
    )
    flags = parser.parse_args()
    require_wrk()
    wanted = [name.strip() for name in flags.only.split(";")]
    unknown = sorted(set(wanted) - set(SERVERS))
    if unknown:
        raise BenchmarkError(f"there is no server {unknown[0]!r}; there are {'; '.join(SERVERS)}")
    cells: list[Cell] = []
    for names, workers in OUR_WORKERS.items():
        if chosen := [name for name in names if name in wanted]:
            say(f"{' and '.join(chosen)} ...")
            with our_service(chosen, workers) as (service, targets):
                cells += measure(targets, flags, service)
    for server in wanted:
        if server in (CEILING, GRANIAN_CEILING, *PEERS):
            say(f"{server} ...")
            with running_peer(server) as targets:
                cells += measure(targets, flags)
    if flags.json:
        print_json({"benchmark": "serving", "cells": [asdict(cell) for cell in cells]})
    else:
        print_tables(cells)
    return int(any(cell.failed for cell in cells if cell.server in (OURS, RECORDING, OURS_2, RECORDING_2)))


if __name__ == "__main__":
    command(main)
