"""Measures what a GPU does for learning. Without one it refuses, with exit status 2.

    ingest   int8 rows from memory into exact sums: examples per second
    hash     the sha256 of the sums of the same rows, on the GPU and on the CPU
    refresh  the weights after one more example, with 4,096 random features
    tower    steps of a tower: eager, compiled, and replayed as a CUDA graph
    beside   p99 of predictions while the learner is idle and busy (python -m benchmarks.beside, which uses the GPU)

    python -m benchmarks.gpu [--only SECTION ...] [--json]           about ten minutes on an H200
    python -m benchmarks.gpu --device cpu --quick                    tries the code; its figures say nothing of a GPU

Rows are int8 with 384 features and 150 classes. Times on the GPU end when it has finished.
"""

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import BenchmarkError
from online.models.statistics.exact import ExactStatistics
from online.models.statistics.ridge import RidgeSolver
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import create_network
from online.plugins.towers.stack import LearningOptions, Stack

SECTIONS = ("ingest", "hash", "refresh", "tower", "beside")
WIDTH, CLASSES = 384, 150
BATCH = 131_072  # rows that are added at once
FEATURES = 4_096
INGEST_TARGET, REFRESH_TARGET_MS, RATIO_TARGET = 1e6, 5.0, 1.25
RATES = (1e-3, 3e-3, 1e-2)  # of the copies of a tower
ROWS, INPUTS, HIDDEN = 256, 384, (512, 512)
CAPTURED_AFTER = 3  # steps, in which libraries choose their kernels

Row = tuple[object, ...]


def draw_rows(count: int, width: int, seed: int = 0) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    """int8 [count, width], classes [count]."""
    draw = np.random.default_rng(seed)
    return draw.integers(-127, 128, (count, width), dtype=np.int8), draw.integers(CLASSES, size=count)


def create_statistics(width: int, device: str) -> ExactStatistics:
    statistics = ExactStatistics(width, device)
    for number in range(CLASSES):
        statistics.add_class(f"class {number}")
    return statistics


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure_ingest(flags: Namespace) -> list[Row]:
    """The same batch again and again, from memory that is not pinned: 50 MB, beyond every cache."""
    rows, classes = draw_rows(2_000 if flags.quick else BATCH, WIDTH)
    statistics = create_statistics(WIDTH, flags.device)

    def ingest(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            statistics.add(rows, classes)  # type: ignore[arg-type]
        statistics.device_gram()
        synchronise(flags.device)
        return time.perf_counter() - started

    ingest(1)
    times = 2 if flags.quick else 16
    pace = median(times * len(rows) / ingest(times) for _ in range(1 if flags.quick else 9))
    return [
        ("examples/s into exact sums, 384 features", pace, verdict(pace, INGEST_TARGET, at_least=True)),
        ("the same on one core of the CPU", ingest_on_cpu(rows, classes), ""),
    ]


def ingest_on_cpu(rows: NDArray[np.int8], classes: NDArray[np.intp]) -> float:
    """Examples per second of processor time."""
    statistics, started = create_statistics(WIDTH, "cpu"), time.process_time()
    statistics.add(rows, classes)  # type: ignore[arg-type]
    statistics.device_gram()
    return len(rows) / (time.process_time() - started)


def measure_hash(flags: Namespace) -> list[Row]:
    rows, classes = draw_rows(5_000 if flags.quick else 500_000, WIDTH, seed=1)
    digests = []
    for device in (flags.device, "cpu"):
        statistics = create_statistics(WIDTH, device)
        statistics.add(rows, classes)  # type: ignore[arg-type]
        digests.append(statistics.digest().hex()[:16])
    return [(f"sha256 on {flags.device} and on cpu", " ".join(digests), "same" if len({*digests}) == 1 else "ANOTHER")]


def measure_refresh(flags: Namespace) -> list[Row]:
    """One example more, in the sums and in the solution; and the factorisation that happens every 512 examples."""
    width = 256 if flags.quick else FEATURES
    rows, classes = draw_rows(1_000 if flags.quick else 20_000, width)
    statistics, solver = create_statistics(width, flags.device), RidgeSolver()
    statistics.add(rows, classes)  # type: ignore[arg-type]
    solver.solve(statistics, 0.01)
    updates_ms = [measure_ms(flags.device, partial(refresh, statistics, solver, rows, classes, n)) for n in range(40)]
    again_ms = [
        measure_ms(flags.device, partial(factorise, statistics, solver)) for _ in range(3 if flags.quick else 9)
    ]
    usual = median(updates_ms[5:])
    return [
        (f"refresh after one example, M = {width:,}, ms", usual, verdict(usual, REFRESH_TARGET_MS, " ms")),
        ("the slowest of 35, ms", max(updates_ms[5:]), ""),
        ("factorise again, ms", median(again_ms), ""),
    ]


def refresh(
    statistics: ExactStatistics, solver: RidgeSolver, rows: NDArray[np.int8], classes: NDArray[np.intp], place: int
) -> None:
    row, label = rows[place : place + 1], [int(classes[place])]
    statistics.add(row, label)
    solver.add(row, label, negative=False, times=1)
    solver.solve(statistics, 0.01)


def factorise(statistics: ExactStatistics, solver: RidgeSolver) -> None:
    solver.forget()
    solver.solve(statistics, 0.01)


def measure_ms(device: str, work: Callable[[], object]) -> float:
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return 1e3 * (time.perf_counter() - started)


class TowerStep:
    """Steps of a tower's three copies on one batch: the loss, its gradient, and AdamW with the average."""

    def __init__(self, device: str) -> None:
        layout = ParameterLayout(create_network("mlp", INPUTS, list(HIDDEN), []), CLASSES)
        self.stack = Stack(layout, LearningOptions(RATES, 1e-4, 0.99), torch.device(device))
        draw = torch.Generator().manual_seed(0)
        self.x_BD = torch.randn(ROWS, INPUTS, generator=draw).to(device)
        self.y_B = torch.randint(CLASSES, (ROWS,), generator=draw).to(device)

    def loss(self, x_BD: Tensor, y_B: Tensor) -> Tensor:
        logits_LBC = self.stack.logits(x_BD)
        return torch.nn.functional.cross_entropy(
            logits_LBC.flatten(0, 1), y_B.repeat(len(logits_LBC)), reduction="sum"
        ) / len(y_B)

    def take(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.stack.descend(self.stack.differentiate([loss(self.x_BD, self.y_B)])[0])

    def eager(self) -> Callable[[], None]:
        return lambda: self.take(self.loss)

    def compiled(self) -> Callable[[], None]:
        loss = torch.compile(self.loss)
        return lambda: self.take(loss)

    def graphed(self) -> Callable[[], None]:
        """The loss and its gradient as one CUDA graph. The parameters stay in their memory, so it can be replayed."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(CAPTURED_AFTER):
                self.stack.differentiate([self.loss(self.x_BD, self.y_B)])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (gradient_LP,) = self.stack.differentiate([self.loss(self.x_BD, self.y_B)])

        def step() -> None:
            graph.replay()
            self.stack.descend(gradient_LP)

        return step


def measure_tower(flags: Namespace) -> list[Row]:
    """Each way from the same start, and how far its parameters end from those of the eager steps."""
    steps, rows = (5, list[Row]()) if flags.quick else (500, list[Row]())
    expected, pace_eager = None, 0.0
    for name in ("eager", "compiled", "CUDA graph"):
        if name == "CUDA graph" and flags.device != "cuda":
            rows.append(("tower steps/s, CUDA graph", "not on a cpu", ""))
            continue
        tower = TowerStep(flags.device)
        step = {"eager": tower.eager, "compiled": tower.compiled, "CUDA graph": tower.graphed}[name]()
        for _ in range(CAPTURED_AFTER):
            step()
        parameters_LP = tower.stack.parameters_LP.cpu().clone()
        expected = parameters_LP if expected is None else expected
        off = float((parameters_LP - expected).abs().max())
        pace = 1e3 * steps / measure_ms(flags.device, partial(repeat, step, steps))
        pace_eager = pace_eager or pace
        rows.append(
            (f"tower steps/s, {name}", pace, f"{pace / pace_eager:.2f} times eager, parameters off by {off:.1e}")
        )
    return rows


def repeat(work: Callable[[], None], times: int) -> None:
    for _ in range(times):
        work()


def measure_beside(flags: Namespace) -> list[Row]:
    """Predictions of a service whose learner trains a tower on the GPU."""
    options = ["--seconds", "2", "--windows", "1"] if flags.quick else []
    done = subprocess.run(
        (sys.executable, "-m", "benchmarks.beside", "--json", *options), stdout=subprocess.PIPE, check=False
    )
    if done.returncode == 2:
        raise BenchmarkError("benchmarks.beside could not run: see above")
    windows: list[dict[str, Any]] = json.loads(done.stdout)["windows"]
    idle, busy = (percentile([w["p99_ms"] for w in windows if w["busy"] == kind], 50) for kind in (False, True))
    return [
        ("p99 of predictions, idle, ms", idle, ""),
        (
            "p99 of predictions, learner busy, ms",
            busy,
            f"busy / idle {busy / idle:.2f}: {verdict(busy / idle, RATIO_TARGET)}",
        ),
    ]


def check_device(device: str) -> str:
    """Return the device's name. Raises BenchmarkError without a GPU."""
    if device == "cpu":
        return "CPU: these figures say nothing of a GPU"
    if not torch.cuda.is_available():
        raise BenchmarkError("this machine has no GPU that torch can use, so there is nothing to measure")
    return torch.cuda.get_device_name()


def print_tables(name: str, found: dict[str, Sequence[Row]]) -> None:
    table(name, ("figure", "value", ""), [row for rows in found.values() for row in rows])


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="sections (default: all; with --quick not beside)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the code (default cuda)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the code")
    flags = parser.parse_args()
    name = check_device(flags.device)
    measures = {
        "ingest": measure_ingest,
        "hash": measure_hash,
        "refresh": measure_refresh,
        "tower": measure_tower,
        "beside": measure_beside,
    }
    found: dict[str, Sequence[Row]] = {}
    for section in flags.only or (SECTIONS[:-1] if flags.quick else SECTIONS):
        say(f"{section} ...")
        found[section] = measures[section](flags)
    if flags.json:
        print_json({"benchmark": "gpu", "device": name, "quick": flags.quick, **found})
    else:
        print_tables(name + (", quick" if flags.quick else ""), found)
    return int("ANOTHER" in str(found))


if __name__ == "__main__":
    command(main)
