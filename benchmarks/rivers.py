"""Measures the cost of river's classifiers as models of this service: on one stream, predict, score, learn.

Every publication pickles the whole estimator, signs it and hashes its learned state, and a server
loads it. That is cheap for a linear model but not for a forest: the last column is the shortest
sensible `publish_every_ms`.
"""

import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from benchmarks.report import command, create_parser, print_json, say, table
from online.evaluation.sources.datasets import open_dataset
from online.models import Example
from online.models.encoders.rows import TableEncoder
from online.plugins.libraries.river import NAMED, River

ROUNDS = 5  # of each step of a publication; medians are reported


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return a call's result, and its duration in ms."""
    started = time.perf_counter()
    return function(*arguments), 1000 * (time.perf_counter() - started)


def median_ms(function: Callable[..., Any], *arguments: Any) -> float:
    return statistics.median(timed(function, *arguments)[1] for _ in range(ROUNDS))


def examples(stream: str, count: int) -> list[Example]:
    encoder = TableEncoder()
    return [
        Example(offset, "label", encoder.encode([instance])[0], str(label))
        for offset, (instance, label) in enumerate(islice(open_dataset(f"river:{stream}"), count), 1)
    ]


def measure(name: str, log: list[Example]) -> dict[str, Any]:
    model, right, predict_ms, learn_ms = River({"estimator": name}), 0, list[float](), list[float]()
    for example in log:
        answers, took = timed(model.predict, [example.features])
        predict_ms.append(took)
        learn_ms.append(timed(model.learn, [example])[1])
        right += answers[0].choice == example.label
    state, restored = model.state(), River({"estimator": name})
    pickle_ms, hash_ms, load_ms = (
        median_ms(model.state),
        median_ms(model.fingerprint),
        median_ms(restored.restore, state),
    )
    return {
        "estimator": name,
        "accuracy %": 100 * right / len(log),
        "predict ms": statistics.median(predict_ms),
        "learn ms": statistics.median(learn_ms),
        "MB": state["estimator"].tensors["estimator"].nbytes / 1e6,
        "pickle ms": pickle_ms,
        "hash ms": hash_ms,
        "load ms": load_ms,
        "publish ms": pickle_ms + hash_ms,
    }


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--stream", default="ImageSegments", help="a classification dataset inside river")
    parser.add_argument("--count", type=int, default=1_000, help="examples")
    flags = parser.parse_args()
    log, rows = examples(flags.stream, flags.count), []
    for name in NAMED:
        say(name)
        rows.append(measure(name, log))
    if flags.json:
        print_json({"stream": flags.stream, "examples": len(log), "estimators": rows})
    else:
        table(f"{flags.stream}, {len(log):,} examples", list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
