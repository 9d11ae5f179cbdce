"""Measures models that answer before every event and learn it, in events per second of one core.

    python -m benchmarks.events [--only NAME ...] [--events 6000] [--json]

Each model predicts an event, then learns it, on one thread. The first quarter is not timed. right %: of all answers.
The rows named river are river's own models on the same numbers, without us. learn: examples per second in batches of
1,024, without any answer.
"""

import base64
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.replay import ranker_lines
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, table
from online.models import Example, create
from online.models.encoders.rows import TableEncoder, VectorEncoder
from online.models.updates import answer_by_updates

BATCH = 1_024
GOALS = {"64 numbers": 3_000, "9 columns": 5_000, "9 numbers": 5_000, "ranker": 5_000, "learn": 100_000}

Points = list[tuple[list[float], str]]


def ten_classes(count: int, numbers: int = 64) -> Points:
    """Points around ten centres."""
    draw = np.random.default_rng(0)
    centres = draw.normal(0, 1, (10, numbers))
    labels = draw.integers(10, size=count).tolist()
    return [((centres[label] + draw.normal(0, 1.5, numbers)).round(3).tolist(), str(label)) for label in labels]


def two_classes(count: int, columns: int = 9) -> Points:
    values = np.random.default_rng(0).random((count, columns)).round(3)
    return [(row.tolist(), str(int(row[0] + row[1] > 1))) for row in values]


def line(count: int, numbers: int = 9) -> Points:
    draw = np.random.default_rng(0)
    rule, values = draw.normal(0, 1, numbers), draw.normal(0, 1, (count, numbers)).round(3)
    return [(row.tolist(), repr(float(row @ rule + draw.normal()))) for row in values]


def vector_examples(points: Points) -> list[Example]:
    encoded = VectorEncoder(0).encode([values for values, _ in points])
    return [Example(n, "label", x, label) for n, (x, (_, label)) in enumerate(zip(encoded, points, strict=True), 1)]


def table_examples(points: Points) -> list[Example]:
    encoded = TableEncoder().encode([values for values, _ in points])
    return [Example(n, "label", x, label) for n, (x, (_, label)) in enumerate(zip(encoded, points, strict=True), 1)]


def ranker_examples(count: int) -> list[Example]:
    """The replies and thumbs of a log of the chat model."""
    questions: dict[str, bytes] = {}
    return [example for line in ranker_lines(count) for example in read_line(line, questions)]


def read_line(line: dict[str, Any], questions: dict[str, bytes]) -> Iterator[Example]:
    if "prediction" in line:
        questions[line["prediction"]["id"]] = base64.b64decode(line["prediction"]["features"])
        return
    event = line["event"]
    features = base64.b64decode(event["features"]) if "features" in event else questions[event["prediction_id"]]
    yield Example(event["offset"], event["kind"], features, event["label"], event["text"], event["reward"])


def ours(kind: str, options: dict[str, Any], examples: Sequence[Example]) -> tuple[float, float]:
    """Answer and learn every event. Return events per second of core time and the share of right answers."""
    model = create(kind, options)
    answer_by_updates(model)

    def step(example: Example) -> bool:
        choice = model.predict([example.features])[0].choice if example.kind != "reply" else None
        model.learn([example])
        return choice == example.label

    return measure([lambda example=example: step(example) for example in examples])  # type: ignore[misc]


def river_softmax(points: Points) -> tuple[float, float]:
    from river import linear_model, preprocessing

    model = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    rows = [(dict(enumerate(values)), label) for values, label in points]

    def step(row: dict[int, float], label: str) -> bool:
        choice = model.predict_one(row)
        model.learn_one(row, label)
        return bool(choice == label)

    return measure([lambda row=row, label=label: step(row, label) for row, label in rows])  # type: ignore[misc]


def measure(steps: Sequence[Callable[[], bool]]) -> tuple[float, float]:
    warm = len(steps) // 4
    right = sum(step() for step in steps[:warm])
    started = time.thread_time()
    right += sum(step() for step in steps[warm:])
    return (len(steps) - warm) / (time.thread_time() - started), right / len(steps)


def bulk(examples: Sequence[Example], options: dict[str, Any]) -> tuple[float, float]:
    """Learn in batches without answering."""
    started, model = time.thread_time(), create("classifier", options)
    for start in range(0, len(examples), BATCH):
        model.learn(examples[start : start + BATCH])
    return len(examples) / (time.thread_time() - started), float("nan")


VECTOR_64 = {"input": "vector", "size": 64, "scale": 8.0}
NUMBERS_9 = {"input": "vector", "size": 9, "scale": 8.0, "target_scale": 16.0}
TABLE = {"input": "table", "scale": 1.0}
CASES: dict[str, Callable[[int], tuple[float, float]]] = {
    "64 numbers": lambda count: ours("classifier", VECTOR_64, vector_examples(ten_classes(count))),
    "64 numbers, head ridge": lambda count: ours(
        "classifier", {**VECTOR_64, "head": "ridge"}, vector_examples(ten_classes(count))
    ),
    "64 numbers, river softmax": lambda count: river_softmax(ten_classes(count)),
    "9 columns": lambda count: ours("classifier", TABLE, table_examples(two_classes(count))),
    "9 columns, river softmax": lambda count: river_softmax(two_classes(count)),
    "9 numbers": lambda count: ours("regressor", NUMBERS_9, vector_examples(line(count))),
    "ranker": lambda count: ours("ranker", {}, ranker_examples(count)),
    "learn": lambda count: bulk(vector_examples(ten_classes(5 * count)), VECTOR_64),
}


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    rows = [(name, *CASES[name](flags.events)) for name in flags.only]
    if flags.json:
        print_json({"benchmark": "events", "rates": {name: [rate, right] for name, rate, right in rows}})
    else:
        shown = [(name, f"{rate:,.0f}", f"{100 * right:.2f}", f"{GOALS.get(name, 0):,}") for name, rate, right in rows]
        table(
            f"answering and learning every event, {flags.events:,} events", ("", "per core-s", "right %", "goal"), shown
        )
    return 0


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="only these rows")
    parser.add_argument("--events", type=int, default=6_000, help="events of each row (default: 6000)")
    return parser.parse_args()


if __name__ == "__main__":
    command(main)
