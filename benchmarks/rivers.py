"""What do river's classifiers cost under our contract? One stream, each by its short name: predict, score, learn.

Every publication pickles the whole estimator, signs it and hashes what it learned; a server loads it again. That is
free for a linear model and not for a forest: the last column is the shortest sensible `publish_every_ms`.
"""

import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from benchmarks.report import command, parser, print_json, say, table
from online.evaluation.formats import dataset
from online.models import Example
from online.models.encoder import TableEncoder
from online.models.river import NAMED, River

ROUNDS = 5  # a publication's times are their medians


def timed(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """What it returned, and how many ms it took."""
    started = time.perf_counter()
    return work(*given), 1000 * (time.perf_counter() - started)


def median_ms(work: Callable[..., Any], *given: Any) -> float:
    return statistics.median(timed(work, *given)[1] for _ in range(ROUNDS))


def examples(stream: str, count: int) -> list[Example]:
    encoder = TableEncoder()
    return [
        Example(offset, "label", encoder.encode([instance])[0], str(label))
        for offset, (instance, label) in enumerate(islice(dataset(f"river:{stream}"), count), 1)
    ]


def measured(name: str, log: list[Example]) -> dict[str, Any]:
    model, right, predict_ms, learn_ms = River({"estimator": name}), 0, list[float](), list[float]()
    for example in log:
        answers, took = timed(model.predict, [example.features])
        predict_ms.append(took)
        learn_ms.append(timed(model.learn, [example])[1])
        right += answers[0].choice == example.label
    state, again = model.state(), River({"estimator": name})
    pickle_ms, hash_ms, load_ms = median_ms(model.state), median_ms(model.fingerprint), median_ms(again.restore, state)
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
    flags = parser(__doc__ or "")
    flags.add_argument("--stream", default="ImageSegments", help="a classification dataset inside river")
    flags.add_argument("--count", type=int, default=1_000, help="examples")
    arguments = flags.parse_args()
    log, rows = examples(arguments.stream, arguments.count), []
    for name in NAMED:
        say(name)
        rows.append(measured(name, log))
    if arguments.json:
        print_json({"stream": arguments.stream, "examples": len(log), "estimators": rows})
    else:
        table(f"{arguments.stream}, {len(log):,} examples", list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
