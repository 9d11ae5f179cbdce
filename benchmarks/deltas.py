"""How many bytes a device loads to follow a model: the whole file of a version, or the delta from the version that it has.

    python -m benchmarks.deltas [--json]

For each of two models, from 1 to 1,000 examples are learned after a version, and the next version is published: digits (256 features,
10 classes) and CLINC150 (384 features of texts, 150 classes). `learner` is the file of integer sums with which a browser goes on
learning; `weights` holds what a server answers with. Every file is compressed by zstd at level 19, and every delta is applied and
compared by sha256. ms: to write the delta, uncompressed, and to apply it, median of three.

A day: 480 digits are learned, one a minute, and a page keeps the newest file of sums. It looks every minute, as an open page does,
every hour, or once.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import TypeVar

import numpy as np
import zstandard
from safetensors.numpy import save
from sklearn.datasets import load_digits

from benchmarks.clinc150 import examples_of, shuffled, split
from benchmarks.report import command, create_parser, print_json, table
from online.models import Example, Model, create
from online.plugins.export.file_deltas import apply_delta, write_delta
from online.plugins.export.learner_file import LearnerFacts, write_learner_file

COUNTS = (1, 10, 100, 1_000)  # examples between two versions
DAY = 480  # examples, one a minute for eight hours
LOOKS = (1, 60, DAY)  # minutes between two downloads
LEVEL = 19
DIGITS = {"input": "vector", "size": 64, "scale": 16.0}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes of the new file and of the delta, both compressed."""

    model: str
    file: str
    examples: int
    whole_bytes: int
    delta_bytes: int
    write_ms: float
    apply_ms: float


def digit_examples() -> list[Example]:
    rows, labels = load_digits(return_X_y=True)
    pairs = enumerate(zip(rows.astype(np.float64), labels, strict=True), 1)
    return shuffled([Example(offset, "label", row.tobytes(), str(label)) for offset, (row, label) in pairs])


def write_weights(model: Model, version: int) -> bytes:
    return save(dict(model.state(serving_only=True)["weights"].tensors))


def write_learner(model: Model, version: int) -> bytes:
    return write_learner_file(model, LearnerFacts("m", str(version), version))


FILES: dict[str, Callable[[Model, int], bytes]] = {"learner": write_learner, "weights": write_weights}


def measure(name: str, options: dict[str, object], examples: Sequence[Example]) -> list[Result]:
    model = create("classifier", options)
    learned = len(examples) - sum(COUNTS)
    model.learn(examples[:learned])
    results = list[Result]()
    for version, count in enumerate(COUNTS, 1):
        before = {file: write(model, version) for file, write in FILES.items()}
        model.learn(examples[learned : learned + count])
        learned += count
        results += [
            compare(name, file, count, before[file], write(model, version + 1)) for file, write in FILES.items()
        ]
    return results


def compare(name: str, file: str, count: int, old: bytes, new: bytes) -> Result:
    delta, write_ms = time_of(lambda: write_delta(old, new))
    applied, apply_ms = time_of(lambda: apply_delta(old, delta))
    assert applied == new, "the delta restores the file"
    return Result(name, file, count, len(compress(new)), len(compress(delta)), write_ms, apply_ms)


@dataclass(frozen=True, slots=True)
class Day:
    """What a page downloads in a day, compressed. every_minutes: between two downloads."""

    every_minutes: int
    downloads: int
    whole_bytes: int
    delta_bytes: int


def measure_day(examples: Sequence[Example], every_minutes: int) -> Day:
    model = create("classifier", DIGITS)
    model.learn(examples[:-DAY])
    kept, whole, deltas = write_learner(model, 0), list[bytes](), list[bytes]()
    for start in range(len(examples) - DAY, len(examples), every_minutes):
        model.learn(examples[start : start + every_minutes])
        newest = write_learner(model, start)
        whole.append(compress(newest))
        deltas.append(compress(write_delta(kept, newest)))
        kept = newest
    return Day(every_minutes, len(whole), sum(map(len, whole)), sum(map(len, deltas)))


def time_of(run: Callable[[], T]) -> tuple[T, float]:
    times = []
    for _ in range(3):
        started = perf_counter()
        result = run()
        times.append(1000 * (perf_counter() - started))
    return result, median(times)


def compress(data: bytes) -> bytes:
    return zstandard.compress(data, LEVEL)


def run() -> int:
    flags = create_parser(__doc__ or "").parse_args()
    results = [
        *measure("digits", DIGITS, digit_examples()),
        *measure("clinc150", {}, shuffled(examples_of(split("val")))),
    ]
    days = [measure_day(digit_examples(), every_minutes) for every_minutes in LOOKS]
    if flags.json:
        print_json({"deltas": [asdict(result) for result in results], "day": [asdict(day) for day in days]})
        return 0
    rows = [
        (
            f"{r.model} {r.file}",
            r.examples,
            f"{r.whole_bytes:,}",
            f"{r.delta_bytes:,}",
            f"{r.whole_bytes / r.delta_bytes:.1f}",
            f"{r.write_ms:.1f}",
            f"{r.apply_ms:.1f}",
        )
        for r in results
    ]
    table("Deltas", ("file", "examples", "whole, bytes", "delta, bytes", "times less", "write, ms", "apply, ms"), rows)
    downloads = [
        (
            f"every {day.every_minutes} minutes",
            day.downloads,
            f"{day.whole_bytes:,}",
            f"{day.delta_bytes:,}",
            f"{day.whole_bytes / day.delta_bytes:.1f}",
        )
        for day in days
    ]
    table("A day of digits", ("looks", "downloads", "whole files, bytes", "deltas, bytes", "times less"), downloads)
    return 0


if __name__ == "__main__":
    command(run)
