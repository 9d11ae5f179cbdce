"""Does publishing disturb those who are being answered? The same load with and without a learner that publishes.

    quiet | taught | publishing | quiet | taught | publishing | ... | quiet        windows of --seconds / --windows each

Load: an open loop of --rate predicts a second over 4 connections, each with 8 copies of one probe. A fixed rate keeps
the two cores from saturating, where p99 would measure the queue and not the swap; a late answer delays no later
question, so none is left out of the figures. While publishing, --feedback-rate labels a second make new versions; while
taught, as many come and are on disk before they are acknowledged, but learning is frozen: what is left between these
two is what the versions cost.
Every window begins with a few seconds of its own load that are not counted, and samples the hashes equally often.

Publications are counted by the versions' numbers, whoever saw them. Memory is what both processes hold beyond files at the end
of each window; its slope is fitted over the publications of the second half, when caches are full.

Checked on every counted answer: it is there; its 8 copies agree to the bit; and all answers of one version agree.
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
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, Service, running
from benchmarks.wire import Connection, Pool, Reply, at, get, label, must, open_loop, predict

RATIO_TARGET = 1.2
QUIET, TAUGHT, PUBLISHING = KINDS = ("quiet", "taught", "publishing")
PROCESSES = ("server", "learner", "others")
MEMORIES = ("server", "learner")
GAP_TARGET_MS = 100.0
COPIES = 8
CONNECTIONS = 4
SETTLE_S = 3.0  # the last durable snapshot of a publishing window is written within 2 s
SAMPLE_EVERY_S = 4.0  # listing the versions costs the service some ms: too rare to move a p99


@dataclass(slots=True)
class Window:
    kind: str
    replies: list[Reply] = field(default_factory=list)
    feedback: list[Reply] = field(default_factory=list)
    samples: list[Reply] = field(default_factory=list)
    hashes: list[bool | None] = field(default_factory=list)  # served equals published; None: swapped in between
    cpu: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)  # at its end
    newest: int = 0  # version, at its end

    @property
    def p50_ms(self) -> float:
        return percentile([reply.elapsed_ms for reply in self.replies if reply.ok], 50)

    @property
    def p99_ms(self) -> float:
        return percentile([reply.elapsed_ms for reply in self.replies if reply.ok], 99)

    @property
    def failed(self) -> int:
        return sum(not reply.ok for reply in (*self.replies, *self.feedback, *self.samples))


@dataclass(frozen=True, slots=True)
class Findings:
    """What a window's answers say about versions. split: copies in one answer differ. unsteady: one version, two
    answers; largest_difference: between two such probabilities. gaps_ms: between versions first seen."""

    versions: int
    split: int
    unsteady: int
    largest_difference: float
    gaps_ms: list[float]


def inspect(replies: Iterable[Reply]) -> Findings:
    first_of: dict[str, Any] = {}
    seen_at: dict[str, float] = {}
    split = unsteady = 0
    largest = 0.0
    for reply in sorted((reply for reply in replies if reply.ok), key=lambda reply: reply.answered_at):
        content = reply.json()
        answers, version = content["predictions"], content["model_version"]
        seen_at.setdefault(version, reply.answered_at)
        first = first_of.setdefault(version, answers[0])
        split += any(answer != answers[0] for answer in answers)
        unsteady += answers[0] != first
        largest = max(largest, *(difference(answer, first) for answer in answers))
    gaps = [1000 * (after - before) for before, after in pairwise(seen_at.values())]
    return Findings(len(seen_at), split, unsteady, largest, gaps)


def difference(one: Any, other: Any) -> float:
    """Between the probabilities of two predictions; 1 where they know different labels."""
    a, b = one["probabilities"], other["probabilities"]
    return max((abs(a[name] - b[name]) for name in a), default=0.0) if a.keys() == b.keys() else 1.0


async def sample_hashes(connection: Connection, window: Window, until: float) -> None:
    """Now and then: the hash the server says it serves against the one in that version's manifest."""
    while time.perf_counter() + SAMPLE_EVERY_S < until:
        await at(time.perf_counter() + SAMPLE_EVERY_S)
        served = await connection.ask(get("/v1/models/vec"))
        listed = await connection.ask(get("/v1/models/vec/versions"))
        window.samples += [served, listed]
        if served.ok and listed.ok:
            window.hashes.append(equal_hashes(served.json(), listed.json()["versions"]))


def equal_hashes(served: Any, versions: Sequence[Any]) -> bool | None:
    version = served["model_version_status"][0]["version"]
    published = next((each["weights_sha256"] for each in versions if each["version"] == version), None)
    return None if published is None else bool(published == served["weights_sha256"])


async def run_window(service: Service, flags: Namespace, kind: str, seed: int) -> Window:
    """One window: the load, the feedback where there is to be any, and the samples, all at once."""
    window, seconds = Window(kind), flags.seconds / flags.windows
    async with Pool(service, CONNECTIONS) as load, Pool(service, CONNECTIONS) as teachers, Pool(service, 1) as third:
        await asyncio.to_thread(set_learning, service, kind != TAUGHT)
        await both_loads(load, teachers, Window(kind), flags, SETTLE_S, seed)
        before, started = service.cpu_s(), time.perf_counter()
        await asyncio.gather(
            both_loads(load, teachers, window, flags, seconds, seed + 1),
            sample_hashes(third.all[0], window, started + seconds),
        )
        status = await must(third.all[0], get("/v1/models/vec"))
        window.newest = int(status["model_version_status"][0]["version"])
        window.memory_mb = service.memory_mb()
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    window.cpu = {name: (after[name] - before[name]) / elapsed for name in after}
    return window


def set_learning(service: Service, on: bool) -> None:
    url = f"http://{service.host}:{service.port}/v1/models/vec:{'thaw' if on else 'freeze'}"
    httpx.post(url, json={}, timeout=30).raise_for_status()


async def both_loads(load: Pool, teachers: Pool, window: Window, flags: Namespace, seconds: float, seed: int) -> None:
    probe = predict("vec", *[inputs.vectors(1, 0)[0][0]] * COPIES, record=not flags.dry)
    lessons = inputs.vectors(int(flags.feedback_rate * seconds), seed) if window.kind != QUIET else []
    window.replies, window.feedback = await asyncio.gather(
        open_loop(load.ask, [probe] * int(flags.rate * seconds), flags.rate),
        open_loop(teachers.ask, [label("vec", *lesson) for lesson in lessons], flags.feedback_rate),
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


def summed_up(windows: Sequence[Window]) -> dict[str, Any]:
    of = {kind: [window for window in windows if window.kind == kind] for kind in KINDS}
    publishing = of[PUBLISHING]
    found = inspect([reply for window in windows for reply in window.replies])
    inside = [inspect(window.replies) for window in publishing]
    gaps = [gap for each in inside for gap in each.gaps_ms]
    hashes = [told for window in windows for told in window.hashes]
    drift = publishing[-1].p99_ms / publishing[0].p99_ms
    p50 = {kind: percentile([window.p50_ms for window in windows], 50) for kind, windows in of.items()}
    p99 = {kind: percentile([window.p99_ms for window in windows], 50) for kind, windows in of.items()}
    return {
        "requests": sum(len(window.replies) for window in windows),
        "failed": sum(window.failed for window in windows),
        "split_answers": found.split,
        "unsteady_answers": found.unsteady,
        "largest_difference": found.largest_difference,
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
        "p99_ratio_taught": p99[TAUGHT] / p99[QUIET],
        "p99_ratio_versions": p99[PUBLISHING] / p99[TAUGHT],
    }


def slope(windows: Sequence[Window], process: str) -> float:
    """MB for a thousand publications, by least squares over the second half of the windows."""
    late = windows[len(windows) // 2 :]
    thousands = [window.newest / 1_000 for window in late]
    if len(set(thousands)) < 2:
        return float("nan")
    return float(np.polyfit(thousands, [window.memory_mb[process] for window in late], 1)[0])


def row(window: Window) -> list[object]:
    found = inspect(window.replies)
    gap = sum(found.gaps_ms) / len(found.gaps_ms) if found.gaps_ms else "-"
    cpu = [f"{window.cpu[name]:.0%}" for name in PROCESSES]
    memory = [f"{window.memory_mb[name]:.0f}" for name in MEMORIES]
    seen = [window.newest, found.versions, gap]
    return [window.kind, len(window.replies), window.failed, *seen, window.p50_ms, window.p99_ms, *cpu, *memory]


def print_table(windows: Sequence[Window], told: dict[str, Any]) -> None:
    columns = ["window", "requests", "failed", "newest", "seen", "gap ms", "p50 ms", "p99 ms", *PROCESSES, *MEMORIES]
    table(
        "swap: 8 copies of one probe a request (processor shares of one core, memory in MB)", columns, map(row, windows)
    )
    compared = told["hashes_equal"] + told["hashes_unequal"]
    hashes = verdict(told["hashes_unequal"], 0) if compared else "not measured"
    rows = [
        ("failed requests", told["failed"], "0", verdict(told["failed"], 0)),
        ("answers whose copies differ", told["split_answers"], "0", verdict(told["split_answers"], 0)),
        ("answers unlike their version's first", told["unsteady_answers"], "0", verdict(told["unsteady_answers"], 0)),
        ("largest such difference", f"{told['largest_difference']:.1e}", "0", "-"),
        ("served hash not the published one", told["hashes_unequal"], "0", hashes),
        ("hashes compared (not comparable)", f"{compared} ({told['hashes_not_comparable']})", "-", "-"),
        ("publications", told["publications"], "-", "-"),
        *((f"{name}'s memory, MB", told[f"{name}_mb"], "-", "-") for name in MEMORIES),
        *((f"{name}'s growth, MB a 1,000 publications", told[f"{name}_mb_a_thousand"], "-", "-") for name in MEMORIES),
        ("p99 of the last publishing window / the first", told["p99_last_to_first"], "-", "-"),
        ("mean gap between versions, ms", told["mean_gap_ms"], "100", verdict(told["mean_gap_ms"], GAP_TARGET_MS)),
        ("longest gap, ms", told["max_gap_ms"], "100", verdict(told["max_gap_ms"], GAP_TARGET_MS)),
        ("p99 publishing / quiet", told["p99_ratio"], "1.2", verdict(told["p99_ratio"], RATIO_TARGET)),
        ("p99 taught / quiet", told["p99_ratio_taught"], "-", "-"),
        ("p99 publishing / taught", told["p99_ratio_versions"], "-", "-"),
    ]
    table("over all windows (p50, p99: medians of the windows')", ("figure", "value", "target", "verdict"), rows)


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--seconds", type=float, default=60, help="seconds of publishing in all (default 60)")
    made.add_argument("--windows", type=int, default=3, help="publishing windows they are split into (default 3)")
    made.add_argument("--rate", type=float, default=50, help="predict requests a second (default 50)")
    made.add_argument("--dry", action="store_true", help="predict without recording: the swap without the disk")
    made.add_argument("--feedback-rate", type=float, default=20, help="labels a second while publishing (default 20)")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    with running(VEC) as service:
        windows = asyncio.run(measure(service, flags))
        complaints = service.complaints()
    told = summed_up(windows)
    if flags.json:
        shown = [
            {"kind": w.kind, "p50_ms": w.p50_ms, "p99_ms": w.p99_ms, "failed": w.failed, "cpu": w.cpu} for w in windows
        ]
        print_json({"benchmark": "swap", **told, "windows": shown, "complaints": complaints})
    else:
        print_table(windows, told)
        print(*complaints, sep="\n")
    return int(told["failed"] + told["split_answers"] + told["unsteady_answers"] + told["hashes_unequal"] > 0)


if __name__ == "__main__":
    command(main)
