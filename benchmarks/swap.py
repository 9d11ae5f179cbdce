"""Measures whether publishing disturbs predictions: the same load with and without a learner that publishes.

    quiet | feedback | publishing | quiet | feedback | publishing | ... | quiet    windows of --seconds / --windows each

Load: an open loop of --rate predictions per second over 4 connections, each with 8 copies of one
probe. The fixed rate keeps the two cores from saturating, where p99 would measure the queue and not
the swap; a late answer does not delay the next request, so all are counted. In a publishing window,
--feedback-rate labels per second make new versions. In a feedback window as many labels are stored,
but learning is frozen: the difference between the two is the cost of versions. Every window begins
with a few uncounted seconds of its own load, and samples the hashes equally often.

Publications are counted by version number. Memory is the anonymous memory of each process at the
end of each window; its slope is fitted over the publications of the second half, when caches are full.

Checked for every counted answer: it exists; its 8 copies are bit-identical; and all answers of one
version are the same.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import numpy as np

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, Service, running_service
from benchmarks.wire import Connection, Pool, Response, fetch_json, get, label, open_loop, predict, sleep_until

RATIO_TARGET = 1.2
QUIET, FEEDBACK, PUBLISHING = KINDS = ("quiet", "feedback", "publishing")
PROCESSES = ("server", "learner", "store", "others")
MEMORIES = ("server", "learner", "store")
GAP_TARGET_MS = 100.0
COPIES = 8
CONNECTIONS = 4
SETTLE_S = 3.0  # the last durable snapshot of a publishing window is written within 2 s
SAMPLE_EVERY_S = 4.0  # listing the versions takes the service some ms; so rarely, it does not change a p99


@dataclass(slots=True)
class Window:
    kind: str
    responses: list[Response] = field(default_factory=list)
    feedback: list[Response] = field(default_factory=list)
    samples: list[Response] = field(default_factory=list)
    hashes: list[bool | None] = field(default_factory=list)  # served equals published; None: swapped in between
    cpu: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)  # at its end
    newest: int = 0  # version, at its end

    @property
    def p50_ms(self) -> float:
        return percentile([response.elapsed_ms for response in self.responses if response.ok], 50)

    @property
    def p99_ms(self) -> float:
        return percentile([response.elapsed_ms for response in self.responses if response.ok], 99)

    @property
    def failed(self) -> int:
        return sum(not response.ok for response in (*self.responses, *self.feedback, *self.samples))


@dataclass(frozen=True, slots=True)
class Findings:
    """What a window's answers show about versions.

    split: answers whose copies differ. inconsistent: answers that differ from their version's first one;
    largest_difference: of such probabilities. gaps_ms: between the first answers of successive versions.
    """

    versions: int
    split: int
    inconsistent: int
    largest_difference: float
    gaps_ms: list[float]


def inspect(responses: Iterable[Response]) -> Findings:
    first_of: dict[str, Any] = {}
    seen_at: dict[str, float] = {}
    split = inconsistent = 0
    largest = 0.0
    for response in sorted(
        (response for response in responses if response.ok), key=lambda response: response.answered_at
    ):
        content = response.json()
        answers, version = content["predictions"], content["model_version"]
        seen_at.setdefault(version, response.answered_at)
        first = first_of.setdefault(version, answers[0])
        split += any(answer != answers[0] for answer in answers)
        inconsistent += answers[0] != first
        largest = max(largest, *(difference(answer, first) for answer in answers))
    gaps = [1000 * (after - before) for before, after in pairwise(seen_at.values())]
    return Findings(len(seen_at), split, inconsistent, largest, gaps)


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between the probabilities of two predictions; 1 if their classes differ."""
    a, b = one["probabilities"], other["probabilities"]
    return max((abs(a[name] - b[name]) for name in a), default=0.0) if a.keys() == b.keys() else 1.0


async def sample_hashes(connection: Connection, window: Window, until: float) -> None:
    """Compare at intervals the hash of the served weights with the hash of the published version."""
    while time.perf_counter() + SAMPLE_EVERY_S < until:
        await sleep_until(time.perf_counter() + SAMPLE_EVERY_S)
        served = await connection.send(get("/v1/models/vec"))
        listed = await connection.send(get("/v1/models/vec/versions"))
        window.samples += [served, listed]
        if served.ok and listed.ok:
            window.hashes.append(equal_hashes(served.json(), listed.json()["versions"]))


def equal_hashes(served: Any, versions: Sequence[Any]) -> bool | None:
    version = served["model_version_status"][0]["version"]
    published = next((each["weights_sha256"] for each in versions if each["version"] == version), None)
    return None if published is None else bool(published == served["weights_sha256"])


async def run_window(service: Service, flags: Namespace, kind: str, seed: int) -> Window:
    """Run one window: the load, any feedback, and the samples, concurrently."""
    window, seconds = Window(kind), flags.seconds / flags.windows
    async with (
        Pool(service, CONNECTIONS) as load,
        Pool(service, CONNECTIONS) as teachers,
        Pool(service, 1) as status_pool,
    ):
        await asyncio.to_thread(set_learning, service, kind != FEEDBACK)
        await run_loads(load, teachers, Window(kind), flags, SETTLE_S, seed)
        before, started = service.cpu_s(), time.perf_counter()
        await asyncio.gather(
            run_loads(load, teachers, window, flags, seconds, seed + 1),
            sample_hashes(status_pool.all[0], window, started + seconds),
        )
        status = await fetch_json(status_pool.all[0], get("/v1/models/vec"))
        window.newest = int(status["model_version_status"][0]["version"])
        window.memory_mb = service.memory_mb()
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    window.cpu = {name: (after[name] - before[name]) / elapsed for name in after}
    return window


def set_learning(service: Service, on: bool) -> None:
    url = f"http://{service.host}:{service.port}/v1/models/vec:{'thaw' if on else 'freeze'}"
    httpx.post(url, json={}, timeout=30).raise_for_status()


async def run_loads(load: Pool, teachers: Pool, window: Window, flags: Namespace, seconds: float, seed: int) -> None:
    probe = predict("vec", *[inputs.vectors(1, 0)[0][0]] * COPIES, record=not flags.dry)
    lessons = inputs.vectors(int(flags.feedback_rate * seconds), seed) if window.kind != QUIET else []
    window.responses, window.feedback = await asyncio.gather(
        open_loop(load.send, [probe] * int(flags.rate * seconds), flags.rate),
        open_loop(teachers.send, [label("vec", *lesson) for lesson in lessons], flags.feedback_rate),
    )


async def measure(service: Service, flags: Namespace) -> list[Window]:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(200, 0))
    connection.close()
    windows = []
    kinds = [*KINDS * flags.windows, QUIET]
    for number, kind in enumerate(kinds):
        say(f"window {number + 1} of {len(kinds)}: {kind} ...")
        windows.append(await run_window(service, flags, kind, 10 * number + 1))
    return windows


def summarize(windows: Sequence[Window]) -> dict[str, Any]:
    by_kind = {kind: [window for window in windows if window.kind == kind] for kind in KINDS}
    publishing = by_kind[PUBLISHING]
    findings = inspect([response for window in windows for response in window.responses])
    inside = [inspect(window.responses) for window in publishing]
    gaps = [gap for each in inside for gap in each.gaps_ms]
    hashes = [summary for window in windows for summary in window.hashes]
    drift = publishing[-1].p99_ms / publishing[0].p99_ms
    p50 = {kind: percentile([window.p50_ms for window in windows], 50) for kind, windows in by_kind.items()}
    p99 = {kind: percentile([window.p99_ms for window in windows], 50) for kind, windows in by_kind.items()}
    return {
        "requests": sum(len(window.responses) for window in windows),
        "failed": sum(window.failed for window in windows),
        "split_answers": findings.split,
        "inconsistent_answers": findings.inconsistent,
        "largest_difference": findings.largest_difference,
        "hashes_equal": hashes.count(True),
        "hashes_unequal": hashes.count(False),
        "hashes_not_comparable": hashes.count(None),
        "versions": sum(each.versions for each in inside),
        "publications": windows[-1].newest - windows[0].newest,
        "p99_last_to_first": drift,
        **{f"{name}_mb": windows[-1].memory_mb[name] for name in MEMORIES},
        **{f"{name}_mb_a_thousand": slope(windows, name) for name in MEMORIES},
        "mean_gap_ms": sum(gaps) / len(gaps) if gaps else float("nan"),
        "max_gap_ms": max(gaps, default=float("nan")),
        **{f"{kind}_p50_ms": p50[kind] for kind in KINDS},
        **{f"{kind}_p99_ms": p99[kind] for kind in KINDS},
        "p99_ratio": p99[PUBLISHING] / p99[QUIET],
        "p99_ratio_feedback": p99[FEEDBACK] / p99[QUIET],
        "p99_ratio_versions": p99[PUBLISHING] / p99[FEEDBACK],
    }


def slope(windows: Sequence[Window], process: str) -> float:
    """Return MB per thousand publications, by least squares over the second half of the windows."""
    late = windows[len(windows) // 2 :]
    thousands = [window.newest / 1_000 for window in late]
    if len(set(thousands)) < 2:
        return float("nan")
    return float(np.polyfit(thousands, [window.memory_mb[process] for window in late], 1)[0])


def row(window: Window) -> list[object]:
    findings = inspect(window.responses)
    gap = sum(findings.gaps_ms) / len(findings.gaps_ms) if findings.gaps_ms else "-"
    cpu = [f"{window.cpu[name]:.0%}" for name in PROCESSES]
    memory = [f"{window.memory_mb[name]:.0f}" for name in MEMORIES]
    seen = [window.newest, findings.versions, gap]
    return [window.kind, len(window.responses), window.failed, *seen, window.p50_ms, window.p99_ms, *cpu, *memory]


def print_table(windows: Sequence[Window], summary: dict[str, Any]) -> None:
    columns = ["window", "requests", "failed", "newest", "seen", "gap ms", "p50 ms", "p99 ms", *PROCESSES, *MEMORIES]
    table(
        "swap: 8 copies of one probe a request (processor shares of one core, memory in MB)", columns, map(row, windows)
    )
    compared = summary["hashes_equal"] + summary["hashes_unequal"]
    hashes = verdict(summary["hashes_unequal"], 0) if compared else "not measured"
    rows = [
        ("failed requests", summary["failed"], "0", verdict(summary["failed"], 0)),
        ("answers whose copies differ", summary["split_answers"], "0", verdict(summary["split_answers"], 0)),
        (
            "answers that differ from their version's first",
            summary["inconsistent_answers"],
            "0",
            verdict(summary["inconsistent_answers"], 0),
        ),
        ("largest such difference", f"{summary['largest_difference']:.1e}", "0", "-"),
        ("served hashes that differ from the published one", summary["hashes_unequal"], "0", hashes),
        ("hashes compared (not comparable)", f"{compared} ({summary['hashes_not_comparable']})", "-", "-"),
        ("publications", summary["publications"], "-", "-"),
        *((f"{name}'s memory, MB", summary[f"{name}_mb"], "-", "-") for name in MEMORIES),
        *(
            (f"{name}'s growth, MB per 1,000 publications", summary[f"{name}_mb_a_thousand"], "-", "-")
            for name in MEMORIES
        ),
        ("p99 of the last publishing window / the first", summary["p99_last_to_first"], "-", "-"),
        (
            "mean gap between versions, ms",
            summary["mean_gap_ms"],
            "100",
            verdict(summary["mean_gap_ms"], GAP_TARGET_MS),
        ),
        ("longest gap, ms", summary["max_gap_ms"], "100", verdict(summary["max_gap_ms"], GAP_TARGET_MS)),
        ("p99 publishing / quiet", summary["p99_ratio"], "1.2", verdict(summary["p99_ratio"], RATIO_TARGET)),
        (
            "p99 feedback / quiet",
            summary["p99_ratio_feedback"],
            "1.2",
            verdict(summary["p99_ratio_feedback"], RATIO_TARGET),
        ),
        ("p99 publishing / feedback", summary["p99_ratio_versions"], "-", "-"),
    ]
    table("over all windows (p50, p99: medians over the windows)", ("figure", "value", "target", "verdict"), rows)


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60, help="total seconds of publishing (default 60)")
    parser.add_argument("--windows", type=int, default=3, help="number of publishing windows (default 3)")
    parser.add_argument("--rate", type=float, default=50, help="predict requests a second (default 50)")
    parser.add_argument("--dry", action="store_true", help="predict without recording, to leave out the disk")
    parser.add_argument("--feedback-rate", type=float, default=20, help="labels a second while publishing (default 20)")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    with running_service(VEC) as service:
        windows = asyncio.run(measure(service, flags))
        problems = service.log_problems()
    summary = summarize(windows)
    if flags.json:
        shown = [
            {"kind": w.kind, "p50_ms": w.p50_ms, "p99_ms": w.p99_ms, "failed": w.failed, "cpu": w.cpu} for w in windows
        ]
        print_json({"benchmark": "swap", **summary, "windows": shown, "log_problems": problems})
    else:
        print_table(windows, summary)
        print(*problems, sep="\n")
    return int(
        summary["failed"] + summary["split_answers"] + summary["inconsistent_answers"] + summary["hashes_unequal"] > 0
    )


if __name__ == "__main__":
    command(main)
