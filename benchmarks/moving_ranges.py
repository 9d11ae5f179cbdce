"""Measures answers about numbers that leave the range of the first examples, prequentially: answered, judged, then learned.

Classes, in % right (two classes; the last column is the more frequent class so far, or the last label, whichever is better):
grow                 one number, 300 rows up to 10, then 2,000 up to 1,000; the label is whether it is in the upper half
shrink               300 rows about a million, then 2,000 between 0 and 1
stand still first    300 rows of 1,000, then 2,000 between 1,000 and 1,001
elec2                prices of electricity in order, the first `--rows` (ONLINE_SHARED_DATA)

Numbers, as mean absolute errors:
sizes                250 numbers from 8 to 12, then 400 from 800 to 1,200; the number to say is the same number
growth               a series that grows by e every 300 rows, with noise of 1 %; the next number from the last
prices               a random walk of logarithms with growth, `--seeds`; the next price from the last two

Ours have default options; river's peers are its logistic regression, and its linear one, both of scaled numbers.
"""

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import BenchmarkError
from online.models import Example, Model, create
from online.models.encoders.rows import TableEncoder

BATCH = 10  # rows that are answered and learned together, of classes
CLASS_KINDS, NUMBER_KINDS = ("classifier", "logistic", "knn", "river", "best_of"), ("regressor", "river_regressor")
PEERS = {"river": {"estimator": "logistic"}, "river_regressor": {"estimator": "linear"}}

Row = dict[str, Any]
Floats = NDArray[np.float64]


class Stream(NamedTuple):
    name: str
    numbers: bool
    pairs: list[tuple[Row, str]]


def create_streams(rows: int, seeds: list[int]) -> list[Stream]:
    rng = np.random.default_rng(3)
    start, millions = label_halves(rng.uniform(0, 10, 300), 5), label_halves(rng.uniform(8e5, 12e5, 300), 1e6)
    still = label_halves(np.full(300, 1_000.0), 1_000)
    return [
        Stream("grow", False, start + label_halves(rng.uniform(0, 1_000, 2_000), 500)),
        Stream("shrink", False, millions + label_halves(rng.uniform(0, 1, 2_000), 0.5)),
        Stream("stand still first", False, still + label_halves(rng.uniform(1_000, 1_001, 2_000), 1_000.5)),
        Stream("elec2", False, list(islice(read_prices(), rows))),
        Stream("sizes", True, [({"size": size}, repr(size)) for size in create_sizes()]),
        Stream("growth", True, [({"last": before}, repr(now)) for before, now in pairwise(create_growth())]),
        *(Stream(f"prices {seed}", True, create_walk(seed)) for seed in seeds),
    ]


def label_halves(sizes: Floats, middle: float) -> list[tuple[Row, str]]:
    return [({"size": size}, "upper" if size > middle else "lower") for size in sizes.tolist()]


def create_sizes() -> list[float]:
    rng = np.random.default_rng(1)
    return [*rng.uniform(8, 12, 250).tolist(), *rng.uniform(800, 1_200, 400).tolist()]


def create_growth() -> list[float]:
    noise = np.random.default_rng(1).normal(0, 0.01, 1_500)
    numbers: list[float] = (10 * np.exp(np.arange(1_500) / 300) * (1 + noise)).tolist()
    return numbers


def create_walk(seed: int, rows: int = 4_000) -> list[tuple[Row, str]]:
    prices = (50 * np.exp(np.random.default_rng(seed).normal(0.0008, 0.011, rows).cumsum())).tolist()
    return [
        ({"last": last, "before": before}, repr(now))
        for before, last, now in zip(prices, prices[1:], prices[2:], strict=False)
    ]


def read_prices() -> Iterator[tuple[Row, str]]:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    if not path.exists():
        raise BenchmarkError(f"{path} does not exist; set ONLINE_SHARED_DATA to the folder that contains elec2")
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            label = row.pop("class")
            yield {name: float(value) for name, value in row.items()}, label


def create_model(kind: str) -> Model:
    return create(kind, PEERS.get(kind, {"input": "table"}))


def count_right(model: Model, examples: list[Example]) -> float:
    """% right."""
    right = 0
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        answers = model.predict([each.features for each in batch])
        right += sum(answer.choice == each.label for answer, each in zip(answers, batch, strict=True))
        model.learn(batch)
    return 100 * right / len(examples)


def measure_error(model: Model, examples: list[Example]) -> float:
    errors = []
    for example in examples:
        choice = model.predict([example.features])[0].choice
        if choice is not None:
            errors.append(abs(float(choice) - float(example.label)))
        model.learn([example])
    return float(np.mean(errors))


def guess_classes(labels: list[str]) -> float:
    """% right of the last label, or of the more frequent one so far."""
    same = sum(before == now for before, now in pairwise(labels))
    counts, majority = dict.fromkeys(labels, 0), 0
    for label in labels:
        majority += max(counts, key=lambda each: counts[each]) == label
        counts[label] += 1
    return 100 * max(same, majority) / len(labels)


def guess_numbers(labels: list[str]) -> float:
    """The mean absolute error of the last number."""
    return float(np.abs(np.diff([float(label) for label in labels])).mean())


def measure(stream: Stream) -> dict[str, Any]:
    say(f"{stream.name} ...")
    encoded = TableEncoder().encode([row for row, _ in stream.pairs])
    labels = [label for _, label in stream.pairs]
    examples = [
        Example(offset, "label", data, label)
        for offset, (data, label) in enumerate(zip(encoded, labels, strict=True), 1)
    ]
    judge: Callable[[Model, list[Example]], float] = measure_error if stream.numbers else count_right
    kinds = NUMBER_KINDS if stream.numbers else CLASS_KINDS
    figures = {kind: judge(create_model(kind), examples) for kind in kinds}
    return {
        "stream": stream.name,
        "rows": len(examples),
        **figures,
        "guess": (guess_numbers if stream.numbers else guess_classes)(labels),
    }


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--rows", type=int, default=5_000, help="rows of elec2 (default: 5000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of the prices (default: 1 2 3)")
    flags = parser.parse_args()
    streams = create_streams(flags.rows, flags.seeds)
    classes = [measure(stream) for stream in streams if not stream.numbers]
    numbers = [measure(stream) for stream in streams if stream.numbers]
    if flags.json:
        print_json({"right_percent": classes, "mean_absolute_errors": numbers})
        return 0
    for title, rows in (("Right, %", classes), ("Mean absolute error", numbers)):
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
