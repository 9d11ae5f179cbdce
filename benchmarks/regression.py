"""Measures the error of predicted numbers: river's small regression streams, prequentially.

    row -> TableEncoder -> regressor                            ours, with default options
    row -> StandardScaler | LinearRegression(intercept_lr=0.1)  river's, with the rate of its documentation
    row -> StandardScaler | HoeffdingTreeRegressor              river's
    the last number; the mean of all numbers so far             baselines without a model

The table also shows how often our 90 % interval contained the number. The interval is valid only if
the relation does not change; in a drifting stream it contains fewer numbers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.report import command, create_parser, print_json, table
from online.evaluation.scoring.number_score import NumberScore
from online.evaluation.scoring.score import JudgedOutcomes, PendingOutcome
from online.evaluation.sources.datasets import open_dataset
from online.models import Answer, Example, Model, create
from online.models.encoders.rows import TableEncoder
from online.schemas.events import Event

STREAMS = ("TrumpApproval", "ChickWeights")
STATIONARY_ROWS = 2_000  # of the synthetic stream, whose relation never changes

Pair = tuple[dict[str, Any], float]


def pairs(name: str) -> Iterator[Pair]:
    if name == "stationary":
        yield from stationary()
        return
    for instance, number in open_dataset(f"river:{name}"):
        yield instance, float(number)


def stationary() -> Iterator[Pair]:
    """Generate ten numbers, a linear relation, and normal noise of standard deviation 1."""
    draw = np.random.default_rng(0)
    weights = draw.normal(0, 1, 10)
    for x in draw.normal(0, 1, (STATIONARY_ROWS, 10)):
        yield {f"x{place}": float(value) for place, value in enumerate(x)}, float(x @ weights + draw.normal())


def our_score(name: str) -> NumberScore:
    model, encoder, score = create("regressor", {"input": "table"}), TableEncoder(), NumberScore()
    for offset, (row, number) in enumerate(pairs(name), 1):
        features = encoder.encode([row])[0]
        add_score(score, predict_then_learn(model, Example(offset, "label", features, repr(number))), number)
    return score


def add_score(score: NumberScore, answer: Answer, number: float) -> None:
    judged = JudgedOutcomes()
    judged.append(Event("", "label", label=repr(number)), PendingOutcome(answer, 1, score.guesses()))
    score.add_all(judged)
    score.observe(repr(number))


def predict_then_learn(model: Model, example: Example) -> Answer:
    """Return the answer given before the example is learned."""
    answer = model.predict([example.features])[0]
    model.learn([example])
    return answer


def river_score(name: str, model: Any) -> NumberScore:
    score = NumberScore()
    for place, (row, number) in enumerate(pairs(name)):
        add_score(score, Answer(repr(float(model.predict_one(row))) if place else None, ()), number)
        model.learn_one(row, number)
    return score


def peers() -> dict[str, Callable[[], Any]]:
    from river import linear_model, preprocessing, tree

    return {
        "river linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1),
        "river tree": lambda: preprocessing.StandardScaler() | tree.HoeffdingTreeRegressor(),
    }


def measure(name: str) -> dict[str, Any]:
    figures = our_score(name).figures()
    row = {"stream": name, "numbers": figures["judged"], "ours": figures["mae"]}
    row |= {peer: river_score(name, make()).figures()["mae"] for peer, make in peers().items()}
    return row | {
        "no change": figures["no_change_mae"],
        "mean": figures["mean_mae"],
        "covered %": 100 * (figures["covered"] or 0),
    }


def run() -> int:
    flags = create_parser(__doc__ or "").parse_args()
    rows = [measure(name) for name in (*STREAMS, "stationary")]
    if flags.json:
        print_json({"mean_absolute_errors": rows})
    else:
        table("Prequential mean absolute error", list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
