"""Measures the journal of predictions: its bytes, its processor time, and how long a prediction waits to be copied.

    before   rows are handed to the writer thread of the store, in the process that answers
    after    a frame is written to the journal; the store process copies it into the store (SQLite)

Bytes and processor time are those of one prediction, in micro-batches of --batch. `answering` is the processor time of the process that
answers, all of its threads; `copying` that of a copier that finds all predictions waiting. Then a copier runs beside a writer of --rate
predictions a second: a prediction has waited until it is seen in the store, which is looked at every --look_ms.
"""

import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import orjson
from sqlalchemy import func, select, text

from benchmarks.report import command, create_parser, percentile, print_json, say, table
from benchmarks.service import process_cpu_s
from online.journal import JournalFrame, JournalRow, JournalWriter, list_segments
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store import Store, now
from online.store.journal_copy import build_row, copy_all
from online.store.predictions import PREDICTIONS, add_predictions

TEXT = b'"When does the library open on Sundays, and may I bring my dog?"'
TEXT_FEATURES = 384  # bytes
CANDIDATES, SCORES = [f"class {number}" for number in range(10)], [0.1] * 10
CASES = ("784 numbers", "30 numbers", "text")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one prediction. Bytes, microseconds of processor time, and how many a copier copies in a second."""

    case: str
    before_bytes: float
    journal_bytes: float
    store_bytes: float
    before_us: float
    answering_us: float
    copying_us: float
    copied_per_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds from the answer to the store, and the processor time of the copier, idle turns included."""

    case: str
    p50_ms: float
    p99_ms: float
    longest_ms: float
    copier_us: float
    lost: int


def build_rows(case: str, ids: Sequence[str], rng: np.random.Generator) -> list[JournalRow]:
    return [build(case, id, rng) for id in ids]


def build(case: str, id: str, rng: np.random.Generator) -> JournalRow:
    if case == "text":
        features = rng.integers(-127, 128, TEXT_FEATURES).astype(np.int8).tobytes()
        return JournalRow(id, "ada", TEXT, features, "class 0", 1.0, CANDIDATES, SCORES)
    numbers = rng.random(int(case.split()[0])).round(4)
    return JournalRow(id, "ada", orjson.dumps(numbers.tolist()), None, "class 0", 1.0, CANDIDATES, SCORES)


def build_frames(args: Namespace, case: str, count: int) -> list[JournalFrame]:
    """count predictions, in order of their ids."""
    rng = np.random.default_rng(args.seed)
    ids = [f"{number:032x}" for number in range(count)]
    return [
        JournalFrame("m", 3, 7, "", now(), build_rows(case, ids[first : first + args.batch], rng))
        for first in range(0, count, args.batch)
    ]


@contextmanager
def open_workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory(prefix="online-benchmark-") as folder:
        spec = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": {"input": "text"}})
        workspace = Workspace(Settings(state=Path(folder), models=(spec,)))
        yield workspace
        workspace.store.close()


def measure_cost(args: Namespace, case: str) -> Cost:
    frames = build_frames(args, case, args.predictions)
    count = args.predictions
    with open_workspace() as workspace:
        started, empty_bytes = time.process_time(), database_bytes(workspace.store)
        submit_rows(workspace.store, frames)
        before_s = time.process_time() - started
        before_bytes = database_bytes(workspace.store) - empty_bytes
    with open_workspace() as workspace:
        writer = JournalWriter(workspace.journal)
        started = time.process_time()
        for frame in frames:
            writer.append(frame)
        answering_s = time.process_time() - started
        journal_bytes = sum(segment.size for segment in list_segments(workspace.journal))
        empty_bytes = database_bytes(workspace.store)
        started, begun = time.process_time(), time.perf_counter()
        copy_all(workspace.store, workspace.journal_copy())
        copying_s, wall_s = time.process_time() - started, time.perf_counter() - begun
        store_bytes = database_bytes(workspace.store) - empty_bytes
    before_us, answering_us, copying_us = (1e6 * seconds / count for seconds in (before_s, answering_s, copying_s))
    sizes = before_bytes / count, journal_bytes / count, store_bytes / count
    return Cost(case, *sizes, before_us, answering_us, copying_us, count / wall_s)


def submit_rows(store: Store, frames: Sequence[JournalFrame]) -> None:
    """As a service did without a journal: the rows of a micro-batch are one piece of work, and its answers wait for it."""
    waiting = deque[Future[None]]()
    for frame in frames:
        rows = [build_row(frame, row, row.features or number_features(row.input)) for row in frame.rows]
        waiting.append(store.submit(partial(add_predictions, rows=rows), durable=False))
        if len(waiting) >= 16:
            waiting.popleft().result()
    while waiting:
        waiting.popleft().result()


def number_features(input: bytes) -> bytes:
    """The features of a row of numbers, which were stored beside the numbers."""
    return np.array(orjson.loads(input), np.float64).tobytes()


def database_bytes(store: Store) -> int:
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    return int(store.read(lambda connection: connection.scalar(text(pages))))


def measure_wait(args: Namespace, case: str) -> Wait:
    """Write at a rate while a copier runs, and look at the newest prediction in the store all the time."""
    frames = build_frames(args, case, args.rate * args.seconds)
    with open_workspace() as workspace, running_copier(workspace) as copier:
        writer, answered, waited = JournalWriter(workspace.journal), deque[tuple[str, float]](), list[float]()
        begun, used = time.perf_counter(), process_cpu_s(copier.pid)
        for number, frame in enumerate(frames):
            due = begun + number * args.batch / args.rate
            while (left := due - time.perf_counter()) > 0:
                time.sleep(min(left, args.look_ms / 1000))
                note_copied(workspace.store, answered, waited)
            writer.append(frame)
            answered.extend((row.id, time.perf_counter()) for row in frame.rows)
        while answered and time.perf_counter() < begun + args.seconds + 5:
            time.sleep(args.look_ms / 1000)
            note_copied(workspace.store, answered, waited)
        copier_us = 1e6 * (process_cpu_s(copier.pid) - used) / (args.rate * args.seconds)
    ms = [1000 * each for each in waited]
    return Wait(case, percentile(ms, 50), percentile(ms, 99), max(ms), copier_us, len(answered))


def note_copied(store: Store, answered: deque[tuple[str, float]], waited: list[float]) -> None:
    """Predictions are copied in the order of their ids."""
    newest = store.read(lambda connection: connection.scalar(select(func.max(PREDICTIONS.c.id)))) or ""
    at = time.perf_counter()
    while answered and answered[0][0] <= newest:
        waited.append(at - answered.popleft()[1])


@contextmanager
def running_copier(workspace: Workspace) -> Iterator["subprocess.Popen[bytes]"]:
    """The process that a service starts; it is ready once it has copied a first prediction."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "online", "store", "--supervised", "--channel", str(theirs.fileno())],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
    )
    theirs.close()
    assert process.stdin is not None
    process.stdin.write(workspace.settings.dump_with_secrets().encode() + b"\n")
    process.stdin.flush()
    writer = JournalWriter(workspace.journal)
    writer.append(JournalFrame("m", 1, 0, "", now(), build_rows("text", ["!"], np.random.default_rng(0))))
    count = select(func.count()).select_from(PREDICTIONS)
    while not workspace.store.read(lambda connection: connection.scalar(count)):
        time.sleep(0.05)
    try:
        yield process
    finally:
        process.stdin.close()
        ours.close()
        process.wait(30)


def show(costs: Sequence[Cost], waits: Sequence[Wait], args: Namespace) -> None:
    rows = [
        [each.case, *astuple(each)[1:6], each.before_us / each.answering_us, each.copying_us, each.copied_per_s]
        for each in costs
    ]
    columns = [
        "one prediction",
        "before, bytes",
        "journal, bytes",
        "store, bytes",
        "before, us",
        "answering, us",
        "ratio",
        "copying, us",
    ]
    table(f"micro-batches of {args.batch}", [*columns, "copied per s"], rows)
    columns = ["", "waits p50, ms", "p99, ms", "longest, ms", "copier, us each", "lost"]
    found = [[each.case, each.p50_ms, each.p99_ms, each.longest_ms, each.copier_us, each.lost] for each in waits]
    table(f"{args.rate:,} predictions/s for {args.seconds} s", columns, found)


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--predictions", type=int, default=20_000, help="predictions of each case (default 20,000)")
    parser.add_argument("--batch", type=int, default=4, help="predictions of one micro-batch (default 4)")
    parser.add_argument("--rate", type=int, default=1_000, help="predictions a second (default 1,000)")
    parser.add_argument("--seconds", type=int, default=10, help="how long they are written at that rate (default 10)")
    parser.add_argument("--look_ms", type=float, default=5, help="how often the store is looked at (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    costs, waits = list[Cost](), list[Wait]()
    for case in CASES:
        say(f"{case} ...")
        costs.append(measure_cost(args, case))
        waits.append(measure_wait(args, case))
    if args.json:
        found = {"costs": [asdict(each) for each in costs], "waits": [asdict(each) for each in waits]}
        print_json({"benchmark": "journal", **found})
    else:
        show(costs, waits, args)
    return int(any(each.lost for each in waits))


if __name__ == "__main__":
    command(main)
