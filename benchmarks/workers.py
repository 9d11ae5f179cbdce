"""Measures a learner that is helped by workers, against the same learner alone, on a log that is learned from nothing.

    identity   1, 2, 4 and 8 workers, and workers that join and leave in its midst: one sha256
    speed      events per second, by the number of workers
    faults     many workers, of which one after the other is killed and replaced, and others are suspended: the same
               sha256, and the throughput beside the same workers without faults

    python -m benchmarks.workers [--only SECTION ...] [--events 100000] [--head slda|rp_ridge] [--processes 32] [--json]

Workers are those of `online learn --workers` on a real log in SQLite. torchft's DiLoCo runs had 62 faults in half an
hour; here as many are spread evenly over the time that the workers need without faults, and delays of up to a minute
shrink alike. What a fault costs does not shrink, so its cost is printed, and what it would be on the uncompressed schedule.
"""

import os
import random
import signal
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pydantic import SecretStr

from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, say, table, verdict
from online.learning.learner import Learner
from online.learning.parallel.board import ShareBoard
from online.learning.parallel.local_workers import LocalWorkers
from online.models import Options
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.store.events import append_events
from online.workspace import Workspace

KEY = "the key of this benchmark"
CLASSES, WIDTH = 50, 384
SECTIONS = ("identity", "speed", "faults")
FAULTS, SCHEDULE_S = 62, 1_800.0  # of that schedule
MAX_DELAY_S = 60.0
KEPT_PERCENT = 97.7  # of the throughput without faults, in the runs whose schedule this is


@dataclass(frozen=True, slots=True)
class Run:
    """What one pass over the log gave. merged: events whose sums were merged rather than learned here."""

    fingerprint: str
    elapsed_s: float
    merged: int


def write_log(workspace: Workspace, count: int) -> None:
    """Labels of texts around fifty centres."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(CLASSES, WIDTH))
    for start in progress(range(0, count, 10_000), "log"):
        events = []
        for number in range(start, min(start + 10_000, count)):
            label = int(draw.integers(CLASSES))
            values = centres[label] + draw.normal(0, 1.5, WIDTH)
            features = np.clip(np.rint(512 * values / np.linalg.norm(values)), -127, 127).astype(np.int8)
            events.append(Event(f"e{number}", "label", features.tobytes(), f"class {label}"))
        with workspace.store.durable_writer.begin() as connection:
            append_events(connection, "m", events, new=True)


class Bench:
    """A log, and learners of it."""

    def __init__(self, folder: Path, options: Options) -> None:
        spec = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": options})
        self.folder, self.settings = (
            folder,
            Settings(state=folder / "state", models=(spec,), workers_key=SecretStr(KEY), log_level="warning"),
        )
        self.workspace, self.options = Workspace(self.settings), options
        self.runs = 0

    def learn(self, board: ShareBoard | None = None) -> Run:
        """Learn the whole log from nothing, without publishing."""
        workspace = self.workspace
        stream, merged = workspace.sql_stream("m"), 0
        learner = Learner(
            "classifier",
            self.options,
            workspace.snapshots("m"),
            stream,
            workspace.store,
            publish_every_ms=1e12,
            durable_every_s=1e9,
            drift="off",
            board=board,
        )
        if learner.catch_up is not None:
            find = learner.catch_up.find_sums

            def find_sums(examples: Any) -> Any:
                nonlocal merged
                sums = find(examples)
                merged += len(examples) if sums is not None else 0
                return sums

            learner.catch_up.find_sums = find_sums  # type: ignore[method-assign]
        head, started = stream.head(), time.perf_counter()
        while learner.training.learned_until < head:
            learner.step()
        elapsed_s = time.perf_counter() - started
        stream.close()
        return Run(learner.training.model.fingerprint(), elapsed_s, merged)

    @contextmanager
    def board(self) -> Iterator[ShareBoard]:
        self.runs += 1
        board = ShareBoard(str(self.folder / f"board-{self.runs}"), KEY.encode())
        try:
            yield board
        finally:
            board.close()

    @contextmanager
    def workers(self, board: ShareBoard, count: int) -> Iterator[LocalWorkers]:
        """That many workers, which have joined."""
        settings = self.settings.model_copy(update={"learn_workers": count})
        with LocalWorkers(settings, board.address) as found:
            while board.worker_count < count:
                time.sleep(0.05)
            yield found


class Faults(threading.Thread):
    """Kills workers on a schedule, and suspends another one at each fault, for up to a minute of the schedule.

    schedule_s: the time in which all faults happen. count: those that have.
    """

    def __init__(self, workers: LocalWorkers, schedule_s: float, faults: int = FAULTS) -> None:
        super().__init__(daemon=True)
        self.workers, self.schedule_s, self.faults = workers, schedule_s, faults
        self.stopped, self.count, self.draw = threading.Event(), 0, random.Random(0)
        self.suspended: list[threading.Timer] = []

    def run(self) -> None:
        while self.count < self.faults and not self.stopped.wait(self.schedule_s / self.faults):
            killed, delayed = self.draw.sample(self.workers.pids, 2)
            self.send(killed, signal.SIGKILL)
            self.suspend(delayed, self.draw.uniform(0, MAX_DELAY_S) * self.schedule_s / SCHEDULE_S)
            self.count += 1

    def suspend(self, pid: int, seconds: float) -> None:
        self.send(pid, signal.SIGSTOP)
        timer = threading.Timer(seconds, self.send, (pid, signal.SIGCONT))
        self.suspended.append(timer)
        timer.start()

    @staticmethod
    def send(pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it was killed before
            os.kill(pid, number)

    def end(self) -> int:
        """End the schedule; return how many faults there were."""
        self.stopped.set()
        self.join()
        for timer in self.suspended:
            timer.join()
        return self.count


def measure_identity(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("alone", alone.fingerprint[:16], "", "")]
    for count in (1, 2, 4, 8):
        with bench.board() as board, bench.workers(board, count):
            run = bench.learn(board)
        rows.append(row_of(f"{count} workers", run, alone, flags))
    with bench.board() as board, bench.workers(board, 3) as workers:
        faults = Faults(workers, alone.elapsed_s, 8)
        faults.start()
        run = bench.learn(board)
        count = faults.end()
    rows.append(row_of(f"3 workers, {count} killed and replaced", run, alone, flags))
    return rows


def row_of(name: str, run: Run, alone: Run, flags: Namespace) -> tuple[object, ...]:
    same = "same" if run.fingerprint == alone.fingerprint else "ANOTHER"
    return name, run.fingerprint[:16], same, 100 * run.merged / flags.events


def measure_speed(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for count in (0, 1, 2):
        if count:
            with bench.board() as board, bench.workers(board, count):
                runs = [bench.learn(board) for _ in range(flags.passes)]
        else:
            runs = [bench.learn() for _ in range(flags.passes)]
        median_s = median(run.elapsed_s for run in runs)
        same = "same" if {run.fingerprint for run in runs} == {alone.fingerprint} else "ANOTHER"
        rows.append((f"{count} workers", flags.events / median_s, alone.elapsed_s / median_s, same))
    return rows


def measure_faults(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    """Passes without and with faults in turn, so that what else the machine does falls on both."""
    calm: list[Run] = []
    rough: list[Run] = []
    count = 0
    with bench.board() as board, bench.workers(board, flags.processes) as workers:
        for _ in range(flags.passes):
            calm.append(bench.learn(board))
            say(f"without faults: {flags.events / calm[-1].elapsed_s:,.0f} events/s")
            faults = Faults(workers, calm[-1].elapsed_s)
            faults.start()
            rough.append(bench.learn(board))
            count += faults.end()
            say(f"with {faults.count} faults: {flags.events / rough[-1].elapsed_s:,.0f} events/s")
    pairs = [*zip(calm, rough, strict=True)]
    kept = 100 * median(one.elapsed_s / other.elapsed_s for one, other in pairs)
    cost_s = median((other.elapsed_s - one.elapsed_s) * flags.passes / count for one, other in pairs)
    at_pace = 100 * (1 - max(cost_s, 0) * FAULTS / SCHEDULE_S)
    calm_s, rough_s = (median(run.elapsed_s for run in runs) for runs in (calm, rough))
    same = "same" if {run.fingerprint for run in (*calm, *rough)} == {alone.fingerprint} else "ANOTHER"
    return [
        ("workers", flags.processes, ""),
        ("events/s without faults", flags.events / calm_s, ""),
        (f"events/s with {count // flags.passes} killed and as many delayed", flags.events / rough_s, ""),
        ("merged without faults, with faults, percent", f"{share(calm, flags):.0f}, {share(rough, flags):.0f}", ""),
        ("throughput kept, percent", kept, verdict(kept, KEPT_PERCENT, at_least=True)),
        ("seconds that a fault costs", f"{cost_s:.3f}", ""),
        (
            "throughput kept where 1,800 s have 62 faults, percent",
            at_pace,
            verdict(at_pace, KEPT_PERCENT, at_least=True),
        ),
        ("sha256", same, ""),
    ]


def share(runs: Sequence[Run], flags: Namespace) -> float:
    """The percentage of events whose sums were merged."""
    return 100 * sum(run.merged for run in runs) / (int(flags.events) * len(runs))


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections (default: all)")
    parser.add_argument("--events", type=int, default=100_000, help="length of the log (default 100,000)")
    parser.add_argument("--head", choices=("slda", "rp_ridge"), default="slda", help="of the classifier (default slda)")
    parser.add_argument("--processes", type=int, default=32, help="workers in the section faults (default 32)")
    parser.add_argument("--passes", type=int, default=3, help="passes of which the median counts (default 3)")
    flags = parser.parse_args()
    run_on_one_thread()
    found: dict[str, list[tuple[object, ...]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), {"input": "text", "head": flags.head})
        write_log(bench.workspace, flags.events)
        alone = bench.learn()
        say(f"alone: {flags.events / alone.elapsed_s:,.0f} events/s")
        measures = {"identity": measure_identity, "speed": measure_speed, "faults": measure_faults}
        for name in flags.only:
            found[name] = measures[name](bench, flags, alone)
        bench.workspace.store.close()
    columns = {
        "identity": ("workers", "sha256", "", "merged %"),
        "speed": ("workers", "events/s", "times alone", "sha256"),
        "faults": ("figure", "value", ""),
    }
    if flags.json:
        print_json({"benchmark": "workers", "events": flags.events, "head": flags.head, **found})
    else:
        for name, rows in found.items():
            table(name, columns[name], rows)
    return int("ANOTHER" in str(found))


if __name__ == "__main__":
    command(main)
