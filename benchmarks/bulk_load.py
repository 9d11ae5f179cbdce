"""Measures a bulk load: a history that is read, encoded and summed by several processes, and merged in order.

    generated   vectors that each process draws from the seed of a piece: what summing and merging cost
    file        the same as JSONL, with `online load`: reading and parsing, too

    python -m benchmarks.bulk_load [--events 10000000] [--file-events 500000] [--size 16] [--processes 1 2] [--json]

Every run gives the sha256 of the sums. One process learns every piece itself, as a learner does. Ray is measured where
it is installed, with a cluster on this machine.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, say, table
from online.evaluation.sources.file_pieces import BEFORE_LOG, PIECE_ROWS
from online.io.engines import EngineName, WorkEngine, open_engine
from online.io.worker_pools import WorkerPool
from online.learning.bulk_load import BulkLoad
from online.learning.piece_sums import PieceRows, PieceSums, create_summer, list_modules
from online.models import Example, Options, State, create

CLASSES = 10
KIND = "classifier"
SECTIONS = ("generated", "file")

Pool = Callable[[State], WorkerPool[int, PieceSums]]
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ReadSeed:
    """Draws the examples of a piece from its number. size: numbers in a vector; count: examples in all."""

    size: int
    count: int

    def __call__(self, piece: int, /) -> PieceRows:
        start = piece * PIECE_ROWS
        vectors, labels = draw_rows(piece, min(PIECE_ROWS, self.count - start), self.size)
        names = [f"class {label}" for label in labels.tolist()]
        return PieceRows(
            [Example(BEFORE_LOG + start + n, "label", row.tobytes(), names[n]) for n, row in enumerate(vectors)]
        )

    def pieces(self) -> range:
        return range(-(-self.count // PIECE_ROWS))


def draw_rows(seed: int, count: int, size: int) -> "tuple[np.ndarray, np.ndarray]":
    """Vectors float64 [count, size] around the centres of their classes, and these."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(CLASSES, size=count)
    centres = np.random.default_rng(0).normal(0, 2, (CLASSES, size))
    return np.round(centres[labels] + draw.normal(size=(count, size)), 3), labels


def measure_generated(flags: Namespace) -> list[Row]:
    options: Options = {"input": "vector", "size": flags.size}
    read, rows = ReadSeed(flags.size, flags.events), list[Row]()
    engines: list[tuple[str, EngineName, int]] = [(f"{count} processes", "here", count) for count in flags.processes]
    if flags.ray:
        engines.append((f"Ray, {max(flags.processes)} actors", "ray", max(flags.processes)))
    for name, engine_name, processes in engines:
        with open_engine(engine_name, "", processes) as engine:
            rows.append(
                measure_load(
                    name, options, read, None if engine is None else create_opener(engine, options, read), rows
                )
            )
    return rows


def create_opener(engine: WorkEngine, options: Options, read: ReadSeed) -> Pool:
    return lambda state: engine.open_pool(create_summer(KIND, options, state, read), list_modules(KIND), False)


def measure_load(name: str, options: Options, read: ReadSeed, pool: Pool | None, before: list[Row]) -> Row:
    load = BulkLoad(create(KIND, options), read, pool)
    started = time.perf_counter()
    counts = load.learn(progress(read.pieces(), name))
    elapsed_s = time.perf_counter() - started
    row = describe(name, counts.examples, counts.merged, elapsed_s, load.model.fingerprint(), before)
    say(f"{name}: {row[1]:,.0f} examples/s, sha256 {row[4]}")
    return row


def describe(name: str, count: int, merged: int, elapsed_s: float, sha256: str, before: list[Row]) -> Row:
    """A row of a table. before: the rows above it, of which the first is one process."""
    pace = count / elapsed_s
    alone = float(str(before[0][1])) if before else pace
    same = "same" if not before or before[0][4] == sha256[:16] else "ANOTHER"
    return name, pace, pace / alone, 100 * merged / count, sha256[:16], same


def measure_file(flags: Namespace) -> list[Row]:
    """`online load` of a JSONL file, as a user runs it; the time is that of loading, without the imports of Python."""
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), flags)
        options = [*map(str, flags.processes)]
        for number, processes in enumerate(options):
            found = run_load(Path(folder) / str(number), path, flags.size, "--processes", processes)
            name = f"{processes} processes"
            rows.append(describe_load(name, found, rows))
        if flags.ray:
            ray = ("--engine", "ray", "--processes", str(max(flags.processes)))
            rows.append(describe_load("Ray", run_load(Path(folder) / "ray", path, flags.size, *ray), rows))
    return rows


def describe_load(name: str, found: dict[str, float], before: list[Row]) -> Row:
    counts = int(found["examples"]), int(found["summed_by_workers"])
    return describe(name, *counts, found["seconds"], str(found["sha256"]), before)


def write_file(folder: Path, flags: Namespace) -> Path:
    path = folder / "history.jsonl"
    with path.open("w") as file:
        for line in draw_lines(flags.file_events, flags.size):
            file.write(line)
    say(f"{path.stat().st_size / 1e6:,.0f} MB of JSONL")
    return path


def draw_lines(count: int, size: int) -> Iterator[str]:
    for start in progress(range(0, count, PIECE_ROWS), "file"):
        vectors, labels = draw_rows(start, min(PIECE_ROWS, count - start), size)
        for row, label in zip(vectors.tolist(), labels.tolist(), strict=True):
            yield json.dumps({"input": row, "label": f"class {label}"}) + "\n"


def run_load(state: Path, path: Path, size: int, *options: str) -> dict[str, float]:
    state.mkdir()
    spec = f'[[models]]\nname = "m"\nkind = "{KIND}"\noptions = {{ input = "vector", size = {size} }}\n'
    (state / "online.toml").write_text(f'state = "{state}/state"\n{spec}')
    command_line = (sys.executable, "-m", "online", "load", str(path), "--model", "m", "--json", *options)
    printed = subprocess.run(command_line, cwd=state, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections (default: all)")
    parser.add_argument("--events", type=int, default=10_000_000, help="generated examples (default 10,000,000)")
    parser.add_argument("--file-events", type=int, default=500_000, help="examples in the file (default 500,000)")
    parser.add_argument("--size", type=int, default=16, help="numbers in a vector (default 16)")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="counts, 1 first (default 1 2)")
    parser.add_argument("--no-ray", dest="ray", action="store_false", help="leave Ray out")
    flags = parser.parse_args()
    flags.ray = flags.ray and importlib.util.find_spec("ray") is not None
    run_on_one_thread()
    measures = {"generated": measure_generated, "file": measure_file}
    found = {name: measures[name](flags) for name in flags.only}
    columns = ("", "examples/s", "times the first", "summed by workers %", "sha256", "")
    if flags.json:
        print_json({"benchmark": "bulk_load", "events": flags.events, "file_events": flags.file_events, **found})
    else:
        for name, rows in found.items():
            table(name, columns, rows)
    return int("ANOTHER" in str(found))


if __name__ == "__main__":
    command(main)
