"""Measures a learner that is helped by workers, against the same learner alone, on a log that is learned from nothing.

    identity   1, 2, 4 and 8 workers, and workers that join and leave in its midst: one sha256
    speed      events per second, by the number of workers
    faults     many workers, of which one after the other is killed and replaced, and shares that are late: the same
               sha256, and the throughput beside the same workers without faults

    python -m benchmarks.workers [--only SECTION ...] [--events 100000] [--head slda|rp_ridge] [--processes 32] [--json]

Workers are processes of `online learn --join` on a real log in SQLite. torchft's DiLoCo runs had 62 faults in half an
hour; here as many are spread evenly over the time that the workers need without faults.
"""

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr

from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, say, table, verdict
from online.learning.learner import Learner
from online.learning.parallel.board import ShareBoard
from online.models import Options
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.store.events import append_events
from online.workspace import Workspace

KEY = "the key of this benchmark"
CLASSES, WIDTH = 50, 384
SECTIONS = ("identity", "speed", "faults")
FAULTS = 62  # in the time of one pass over the log
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
            Settings(state=folder / "state", models=(spec,), workers_key=SecretStr(KEY)),
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

    def start_worker(self, board: ShareBoard) -> "subprocess.Popen[bytes]":
        worker = subprocess.Popen(
            (sys.executable, "-m", "online", "learn", "--supervised", "--join", str(board.address)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert worker.stdin is not None
        worker.stdin.write(self.settings.dump_with_secrets().encode() + b"\n")
        worker.stdin.flush()
        return worker

    @contextmanager
    def workers(self, board: ShareBoard, count: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
        """That many workers, which have joined."""
        found = [self.start_worker(board) for _ in range(count)]
        while board.worker_count < count:
            time.sleep(0.05)
        try:
            yield found
        finally:
            for worker in found:
                worker.kill()
                worker.wait()


class Faults(threading.Thread):
    """Kills one worker after the other and starts another in its place, on a schedule, until it is stopped."""

    def __init__(
        self, bench: Bench, board: ShareBoard, workers: list["subprocess.Popen[bytes]"], every_s: float
    ) -> None:
        super().__init__(daemon=True)
        self.bench, self.board, self.workers, self.every_s = bench, board, workers, every_s
        self.stopped, self.count, self.draw = threading.Event(), 0, random.Random(0)

    def run(self) -> None:
        while not self.stopped.wait(self.every_s):
            place = self.draw.randrange(len(self.workers))
            self.workers[place].send_signal(signal.SIGKILL)
            self.workers[place].wait()
            self.workers[place] = self.bench.start_worker(self.board)
            self.count += 1


def measure_identity(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("alone", alone.fingerprint[:16], "", "")]
    for count in (1, 2, 4, 8):
        with bench.board() as board, bench.workers(board, count):
            run = bench.learn(board)
        rows.append(row_of(f"{count} workers", run, alone, flags))
    with bench.board() as board, bench.workers(board, 3) as workers:
        faults = Faults(bench, board, workers, 0.5)
        faults.start()
        run = bench.learn(board)
        faults.stopped.set()
        faults.join()
    rows.append(row_of(f"3 workers, {faults.count} killed and replaced", run, alone, flags))
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
        median_s = sorted(run.elapsed_s for run in runs)[len(runs) // 2]
        same = "same" if {run.fingerprint for run in runs} == {alone.fingerprint} else "ANOTHER"
        rows.append((f"{count} workers", flags.events / median_s, alone.elapsed_s / median_s, same))
    return rows


def measure_faults(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    with bench.board() as board, bench.workers(board, flags.processes) as workers:
        calm = bench.learn(board)
        say(f"without faults: {flags.events / calm.elapsed_s:,.0f} events/s")
        faults = Faults(bench, board, workers, calm.elapsed_s / FAULTS)
        faults.start()
        rough = bench.learn(board)
        faults.stopped.set()
        faults.join()
    kept = 100 * calm.elapsed_s / rough.elapsed_s
    same = "same" if {calm.fingerprint, rough.fingerprint} == {alone.fingerprint} else "ANOTHER"
    return [
        ("events/s without faults", flags.events / calm.elapsed_s, ""),
        (f"events/s with {faults.count} workers killed", flags.events / rough.elapsed_s, ""),
        ("throughput kept, percent", kept, verdict(kept, KEPT_PERCENT, at_least=True)),
        ("sha256", same, ""),
    ]


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
