"""Measures what a router adds to the time of an answer, beside LiteLLM's proxy and bare pass-throughs, in one run.

    load --> system --> mock endpoint, which answers after 1.7 ms        each a process of its own, on the same cores

Requests: added median and p99 over asking the endpoint directly, one after another and at 100 and 500 requests a second at planned
times, in rounds in which each system has its turn; medians over the rounds. `CPU` is processor time per request of the process that answers
(`with children`: with its learner and store), the fairer figure where all share two cores. A system that does not sustain a
rate has its own rate instead. `ours, minilm` gets a different question each time; `repeated` 50 questions in turn. Our router records each
choice and each outcome in its log, as it is shipped; the others record nothing.

Streams: 1,000 at once, each 20 chunks over 2 s. Failures: what the caller gets when a route fails.

`others` is what other programs used of the machine: repeat a run in which that is much.
"""

import subprocess
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.routing_failures import list_columns, tabulate_failures
from benchmarks.routing_load import LoadPlan, LoadResult
from benchmarks.routing_systems import System, litellm_proxy, mock_endpoint, our_router, passthrough
from benchmarks.service import ROOT, BenchmarkError, machine_cpu_s, process_cpu_s
from online.api.http.connections import raise_file_limit
from online.io.cache import cache_folder

SEQUENTIAL = 0.0
RATES = (SEQUENTIAL, 100.0, 500.0)
SUSTAINED = 0.95  # of the rate
TAIL_S = 0.1  # after the last planned time, in which answers count as in time
WARM_UP_S = 2.0
QUESTIONS = 1_000_000  # between the first question of one load and that of the next
PAUSE_S, SETTLE_S = 0.3, 10.0  # at least and at most between two loads, in which what is left of the first is done
IDLE = 0.1  # of one core, below which nothing is left
TARGET_MS = {"ours, hashed": 1.0, "ours, minilm": 4.3}
TARGET_P99_MS = 10.0
STREAM_COLUMNS = (
    *(
        "",
        "failed",
        "given up",
        "gap median ms",
        "gap p99 ms",
        "first added, median",
        "first p99 ms",
        "CPU ms",
        "others",
    ),
)
PARTS = ("requests", "streams", "failures")


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of the tables. repeated: number of different questions; 0: each is different."""

    name: str
    system: System
    model: str
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """One load. cpu_ms, all_cpu_ms: per request, of the process that answers, and with its children. others: a share of one core."""

    result: LoadResult
    cpu_ms: float
    all_cpu_ms: float
    others: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A contender at one rate. median_ms, p99_ms: added to asking directly; of `direct` itself in full."""

    contender: str
    rate: float
    median_ms: float
    p99_ms: float
    cpu_ms: float
    all_cpu_ms: float
    achieved: float
    failed: int
    others: float

    @property
    def is_sustained(self) -> bool:
        return self.achieved >= SUSTAINED * self.rate


@contextmanager
def running_contenders(flags: Namespace) -> Iterator[tuple[int, list[Contender]]]:
    """Run all systems; yield the pid of the mock endpoint, and the rows. What cannot run is skipped with its reason."""
    with ExitStack() as stack:
        mock = stack.enter_context(mock_endpoint())
        direct = System("direct", mock.port, mock.path)
        contenders = [Contender("direct", direct, "mock")]
        for kind in ("httpx", "aiohttp"):
            contenders.append(Contender(f"pass-through, {kind}", stack.enter_context(passthrough(kind, mock)), "mock"))
        if not flags.without_litellm:
            try:
                proxy = stack.enter_context(litellm_proxy(mock, flags.litellm))
                contenders.append(Contender("LiteLLM", proxy, "router"))
            except BenchmarkError as error:
                say(f"LiteLLM is skipped: {error}")
        ours = stack.enter_context(our_router(mock))
        contenders.append(Contender("ours, hashed", ours, "hashed"))
        contenders.append(Contender("ours, minilm", ours, "minilm"))
        contenders.append(Contender("ours, minilm, repeated", ours, "minilm", 50))
        yield mock.pid, contenders


def run_load(contender: Contender, mock_pid: int, **plan: Any) -> Load:
    """Run one load in a process of its own."""
    system = contender.system
    full = LoadPlan(system.port, system.path, contender.model, key=system.key, repeated=contender.repeated, **plan)
    started, machine_s, mock_s = time.perf_counter(), machine_cpu_s(), process_cpu_s(mock_pid)
    cpu_s, all_cpu_s = system.cpu_s(), system.all_cpu_s()
    line = [sys.executable, "-m", "benchmarks.routing_load"]
    completed = subprocess.run(line, input=orjson.dumps(asdict(full)), cwd=ROOT, capture_output=True, check=False)
    if completed.returncode:
        raise BenchmarkError(f"the load of {contender.name} failed: {completed.stderr.decode()[-500:]}")
    settle(system)
    result = LoadResult(**orjson.loads(completed.stdout))
    cpu_s, all_cpu_s = system.cpu_s() - cpu_s, system.all_cpu_s() - all_cpu_s
    ours_s = all_cpu_s + process_cpu_s(mock_pid) - mock_s + result.cpu_s
    others = (machine_cpu_s() - machine_s - ours_s) / (time.perf_counter() - started)
    count = max(result.requests, 1)
    return Load(result, 1_000 * cpu_s / count, 1_000 * all_cpu_s / count, others)


def settle(system: System) -> None:
    """Wait until a system has done what is left, such as learning from outcomes."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        used_s = system.all_cpu_s()
        time.sleep(PAUSE_S)
        if system.all_cpu_s() - used_s < IDLE * PAUSE_S:
            break


def measure_requests(contenders: Sequence[Contender], mock_pid: int, flags: Namespace) -> list[Cell]:
    """Measure each contender at each rate, in rounds."""
    loads = defaultdict[tuple[str, float], list[Load]](list)
    first = 0
    for each in contenders:
        run_load(each, mock_pid, kind="sequential", seconds=min(flags.seconds, WARM_UP_S))
    for rate in RATES:
        for number in range(flags.rounds):
            say(f"{name_rate(rate)}, round {number + 1} of {flags.rounds} ...")
            for each in contenders:
                kind = "open" if rate else "sequential"
                first += QUESTIONS
                load = run_load(each, mock_pid, kind=kind, rate=rate, seconds=flags.seconds, first=first)
                loads[each.name, rate].append(load)
    return [summarise(each.name, rate, loads, flags.seconds) for rate in RATES for each in contenders]


def summarise(name: str, rate: float, loads: dict[tuple[str, float], list[Load]], seconds: float) -> Cell:
    """Return the medians over the rounds; what was added is computed in each round."""
    own, direct = loads[name, rate], loads["direct", rate]

    def added(percent: float) -> float:
        pairs = zip(own, direct, strict=True)
        gaps = [
            percentile(each.result.latencies_ms, percent)
            - (0 if name == "direct" else percentile(base.result.latencies_ms, percent))
            for each, base in pairs
        ]
        return percentile(gaps, 50)

    achieved = [len(each.result.latencies_ms) / max(each.result.elapsed_s - TAIL_S, seconds) for each in own]
    return Cell(
        name,
        rate,
        added(50),
        added(99),
        percentile([each.cpu_ms for each in own], 50),
        percentile([each.all_cpu_ms for each in own], 50),
        percentile(achieved, 50),
        sum(each.result.failed for each in own),
        percentile([each.others for each in own], 50),
    )


def name_rate(rate: float) -> str:
    return f"{rate:.0f}/s" if rate else "one after another"


def measure_streams(contenders: Sequence[Contender], mock_pid: int, flags: Namespace) -> list[list[Any]]:
    """Return a row for each contender: of two loads, the medians."""
    loads = defaultdict[str, list[Load]](list)
    for number in range(2 if flags.rounds > 1 else 1):
        for each in contenders:
            if not each.repeated:
                say(f"{flags.streams} streams, round {number + 1}: {each.name} ...")
                first = -QUESTIONS * (number + 1)
                plan = {"kind": "streams", "count": flags.streams, "spread_s": flags.streams / 1_000, "first": first}
                loads[each.name].append(run_load(each, mock_pid, **plan))
    base_ms = percentile([percentile(each.result.first_ms, 50) for each in loads["direct"]], 50)
    rows = []
    for name, own in loads.items():
        results = [each.result for each in own]
        failed, late = sum(each.failed for each in results), sum(each.unanswered for each in results)
        figures = [
            percentile([percentile(values, percent) for values in lists], 50)
            for lists in ([each.gaps_ms for each in results], [each.first_ms for each in results])
            for percent in (50, 99)
        ]
        figures[2] -= 0 if name == "direct" else base_ms
        rows.append([name, failed, late, *figures, percentile([each.cpu_ms for each in own], 50), own[0].others])
    return rows


def print_requests(cells: Sequence[Cell]) -> None:
    for rate in RATES:
        rows = [describe(each) for each in cells if each.rate == rate]
        columns = ["", "added median ms", "added p99 ms", "CPU ms", "with children", "failed", "others, cores"]
        table(f"whole answers, {name_rate(rate)} (`direct`: in full)", columns, rows)
    rows = []
    for each in cells:
        if each.contender in TARGET_MS and each.rate:
            what, target = f"{each.contender}, {name_rate(each.rate)}", TARGET_MS[each.contender]
            if each.is_sustained:
                rows.append([f"{what}: median", each.median_ms, target, verdict(each.median_ms, target, " ms")])
                rows.append([f"{what}: p99", each.p99_ms, TARGET_P99_MS, verdict(each.p99_ms, TARGET_P99_MS, " ms")])
            else:
                rows.append([what, f"{each.achieved:.0f}/s", name_rate(each.rate), "missed: not sustained"])
    table("targets: added ms", ["", "value", "target", "verdict"], rows)


def describe(cell: Cell) -> list[object]:
    """Return the row of a cell."""
    figures: list[object] = [cell.median_ms, cell.p99_ms]
    if not cell.is_sustained:
        figures = [f"sustains {cell.achieved:.0f}/s", "-"]
    return [cell.contender, *figures, cell.cpu_ms, cell.all_cpu_ms, cell.failed, cell.others]


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--quick", action="store_true", help="one short round of each, in a few minutes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each load (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each load (default 3)")
    parser.add_argument("--streams", type=int, default=1_000, help="concurrent streams (default 1000)")
    parser.add_argument("--parts", default="; ".join(PARTS), help=f"parts, separated by ';': {'; '.join(PARTS)}")
    default = cache_folder() / "routing" / "litellm"
    text = f"virtual environment with LiteLLM, created if it is missing (default {default})"
    parser.add_argument("--litellm", type=Path, default=default, help=text.replace("%", "%%"))
    parser.add_argument("--without-litellm", action="store_true", help="leave LiteLLM out")
    flags = parser.parse_args()
    if flags.quick:
        flags.rounds, flags.seconds, flags.streams = 1, 0.7, 200
    flags.parts = [part.strip() for part in flags.parts.split(";")]
    if unknown := sorted(set(flags.parts) - set(PARTS)):
        raise BenchmarkError(f"there is no part {unknown[0]!r}; use {'; '.join(PARTS)}")
    return flags


def main() -> int:
    flags = parse_flags()
    raise_file_limit()
    report = dict[str, Any]()
    with running_contenders(flags) as (mock_pid, contenders):
        if "requests" in flags.parts:
            cells = measure_requests(contenders, mock_pid, flags)
            report["requests"] = [asdict(each) for each in cells]
            if not flags.json:
                print_requests(cells)
        if "streams" in flags.parts:
            report["streams"] = measure_streams(contenders, mock_pid, flags)
            if not flags.json:
                table(f"{flags.streams} streams of 20 chunks, 105 ms apart", STREAM_COLUMNS, report["streams"])
        if "failures" in flags.parts:
            systems = {
                each.system.name: each.system for each in contenders if each.name.startswith(("ours", "LiteLLM"))
            }
            compared = [*reversed(systems.values())]
            say("failures ...")
            report["failures"] = tabulate_failures(compared, 1 if flags.quick else 2)
            if not flags.json:
                table("what the caller gets", list_columns(compared), report["failures"])
    if flags.json:
        print_json(report)
    return 0


if __name__ == "__main__":
    command(main)
