"""Measures a learner that is helped by workers, against the same learner alone, on a log that is learned from nothing.

    identity   1, 2, 4 and 8 workers, and workers that join and leave in its midst: one sha256
    speed      events per second, by the number of workers
    faults     many workers, of which one after the other is killed and replaced, and others are suspended: the same
               sha256, and the throughput beside the same workers without faults

    python -m benchmarks.workers [--only SECTION ...] [--events 100000] [--head slda|rp_ridge] [--processes 32]
                                 [--schedule 180] [--json]

Workers are those of `online learn --workers` on a real log in SQLite. torchft's DiLoCo runs had 62 faults in half an
hour; here they come within --schedule seconds, and delays of up to a minute shrink alike. Ten seconds with faults follow
ten without, again and again, so that what else the machine does falls on both. What a fault costs does not shrink, so its
cost is printed, and what is kept where the schedule takes half an hour.
"""

import os
import random
import signal
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, say, table, verdict
from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.learning.workers import WorkerHost
from online.models import Options
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.learner_workers import BoardHost
from online.plugins.workers.local_workers import LocalWorkers
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store.events import append_events
from tests.plugins.workers.of_learner import catch_up_of

KEY = "the key of this benchmark"
CLASSES, WIDTH = 50, 384
Array = NDArray[np.float64]
SECTIONS = ("identity", "speed", "faults")
FAULTS, SCHEDULE_S = 62, 1_800.0  # of that schedule
MAX_DELAY_S = 60.0
WINDOW_S = 10.0  # with faults, and then without
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
            Settings.model_validate(
                {"state": folder / "state", "models": (spec,), "workers_key": SecretStr(KEY), "log_level": "warning"}
            ),
        )
        self.workspace, self.options = Workspace(self.settings), options
        self.runs = 0

    def learn(self, board: ShareBoard | None = None, note: Callable[[int], None] = lambda offset: None) -> Run:
        """Learn the whole log from nothing, without publishing. note: gets the offset that each step has reached."""
        workspace = self.workspace
        stream, merged = workspace.sql_stream("m"), 0
        learner = Learner(
            "classifier",
            self.options,
            workspace.snapshots("m"),
            stream,
            workspace.store,
            LearnerSetup(
                publish_every_ms=1e12,
                durable_every_s=1e9,
                drift="off",
                workers=WorkerHost() if board is None else BoardHost(board),
            ),
        )
        if catch_up_of(learner) is not None:
            find = catch_up_of(learner).find_sums

            def find_sums(examples: Any) -> Any:
                nonlocal merged
                sums = find(examples)
                merged += len(examples) if sums is not None else 0
                return sums

            catch_up_of(learner).find_sums = find_sums  # type: ignore[method-assign]
        head, started = stream.head(), time.perf_counter()
        while learner.training.learned_until < head:
            learner.step()
            note(learner.training.learned_until)
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
    """Kills workers at even intervals, and suspends another one at each fault, for up to a minute of the schedule.

    schedule_s: the time into which half an hour is compressed. Without `allowed`, faults wait.
    """

    def __init__(self, workers: LocalWorkers, schedule_s: float, faults: int = FAULTS) -> None:
        super().__init__(daemon=True)
        self.workers, self.schedule_s, self.interval_s = workers, schedule_s, schedule_s / faults
        self.allowed, self.stopped = threading.Event(), threading.Event()
        self.count, self.draw = 0, random.Random(0)
        self.suspended: list[threading.Timer] = []

    def run(self) -> None:
        while not self.stopped.wait(self.interval_s):
            if self.allowed.is_set():
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
        """End the faults; return how many there were, and wait until nobody is suspended."""
        self.stopped.set()
        self.join()
        for timer in self.suspended:
            timer.join()
        return self.count


class Windows:
    """Lets faults happen in every second window of the time that learners take. Window k is without faults if k is even."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.learned: list[int] = [0]  # events, by window
        self.seconds: list[float] = [0.0]
        self.faults_before = [0]  # each window
        self._offset, self._at = 0, 0.0

    def begin(self) -> None:
        """Begin a pass over the log."""
        self._offset, self._at = 0, time.perf_counter()

    def note(self, offset: int) -> None:
        """Count the events that were learned since the last call."""
        now = time.perf_counter()
        self.learned[-1] += offset - self._offset
        self.seconds[-1] += now - self._at
        self._offset, self._at = offset, now
        if self.seconds[-1] >= WINDOW_S:
            self.learned.append(0)
            self.seconds.append(0.0)
            self.faults_before.append(self.faults.count)
            if self.is_calm:
                self.faults.allowed.clear()
            else:
                self.faults.allowed.set()

    @property
    def is_calm(self) -> bool:
        return len(self.seconds) % 2 == 1

    @property
    def pairs(self) -> int:
        return (len(self.seconds) - 1) // 2

    def paces(self) -> tuple[Array, Array]:
        """Events per second without and with faults, of each pair of windows."""
        rates = np.array(self.learned[: 2 * self.pairs]) / np.array(self.seconds[: 2 * self.pairs])
        return rates[::2], rates[1::2]


def measure_identity(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("alone", alone.fingerprint[:16], "", "")]
    for count in (1, 2, 4, 8):
        with bench.board() as board, bench.workers(board, count):
            run = bench.learn(board)
        rows.append(row_of(format_count(count), run, alone, flags))
    with bench.board() as board, bench.workers(board, 3) as workers:
        faults = Faults(workers, alone.elapsed_s, 8)
        faults.allowed.set()
        faults.start()
        run = bench.learn(board)
        count = faults.end()
    rows.append(row_of(f"3 workers, {count} killed and replaced", run, alone, flags))
    return rows


def row_of(name: str, run: Run, alone: Run, flags: Namespace) -> tuple[object, ...]:
    same = "same" if run.fingerprint == alone.fingerprint else "ANOTHER"
    return name, run.fingerprint[:16], same, 100 * run.merged / flags.events


def measure_speed(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    """Passes alone and with workers in turn, so that what else the machine does falls on all of them."""
    passes: dict[int, list[Run]] = {0: [], 1: [], 2: []}
    for _ in range(flags.passes):
        passes[0].append(bench.learn())
        for count in (1, 2):
            with bench.board() as board, bench.workers(board, count):
                passes[count].append(bench.learn(board))
    rows: list[tuple[object, ...]] = []
    for count, runs in passes.items():
        times_alone = median(one.elapsed_s / run.elapsed_s for one, run in zip(passes[0], runs, strict=True))
        same = "same" if {run.fingerprint for run in runs} == {alone.fingerprint} else "ANOTHER"
        median_s = median(run.elapsed_s for run in runs)
        rows.append((format_count(count), flags.events / median_s, times_alone, same))
    return rows


def format_count(workers: int) -> str:
    return "alone" if workers == 0 else "1 worker" if workers == 1 else f"{workers} workers"


def measure_faults(bench: Bench, flags: Namespace, alone: Run) -> list[tuple[object, ...]]:
    """Passes over the log until the windows with faults have taken as long as the schedule."""
    runs: list[Run] = []
    with bench.board() as board, bench.workers(board, flags.processes) as workers:
        faults = Faults(workers, flags.schedule)
        windows = Windows(faults)
        faults.start()
        while windows.pairs * WINDOW_S < flags.schedule:
            windows.begin()
            runs.append(bench.learn(board, windows.note))
            say(f"{windows.pairs * WINDOW_S:.0f} of {flags.schedule:.0f} s with faults, {faults.count} of them")
        faults.end()
    count = windows.faults_before[2 * windows.pairs]
    calm_W, rough_W = windows.paces()
    kept = 100 * rough_W.mean() / calm_W.mean()
    error = 100 * float((rough_W - calm_W * kept / 100).std()) / calm_W.mean() / max(len(calm_W) - 1, 1) ** 0.5
    cost_s = (1 / rough_W.mean() - 1 / calm_W.mean()) * sum(windows.learned[1 : 2 * windows.pairs : 2]) / max(count, 1)
    at_pace = 100 * (1 - max(cost_s, 0) * FAULTS / SCHEDULE_S)
    same = "same" if {run.fingerprint for run in runs} == {alone.fingerprint} else "ANOTHER"
    return [
        ("workers", flags.processes, ""),
        ("killed, and as many delayed", count, ""),
        ("events/s without faults", calm_W.mean(), ""),
        ("events/s with faults", rough_W.mean(), ""),
        ("merged, percent", f"{share(runs, flags):.0f}", ""),
        ("throughput kept, percent", f"{kept:.1f} ± {error:.1f}", verdict(kept, KEPT_PERCENT, at_least=True)),
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
    parser.add_argument(
        "--schedule",
        type=float,
        default=180.0,
        help="seconds into which half an hour of faults is compressed (default 180)",
    )
    parser.add_argument(
        "--passes", type=int, default=3, help="passes of the section speed of which the median counts (default 3)"
    )
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
