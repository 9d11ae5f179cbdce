"""How far off are predicted numbers? River's small regression streams, prequentially: predict, score, then learn.

    row -> TableEncoder -> regressor                            ours, as it comes
    row -> StandardScaler | LinearRegression(intercept_lr=0.1)  river's, with the rate its own documentation uses
    row -> StandardScaler | HoeffdingTreeRegressor              river's
    the last number again; the mean of all so far               what needs no model

Beside the mean absolute error stands how often our 90 % interval held the number. It promises that for numbers whose
rule does not change; in a stream that drifts away from its own past it holds fewer.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.report import command, parser, print_json, table
from online.evaluation.formats import dataset
from online.evaluation.scores import NumberScore, Said
from online.models import Answer, Example, Model, create
from online.models.encoder import TableEncoder
from online.schemas import Event

STREAMS = ("TrumpApproval", "ChickWeights")
DRAWN = 2_000  # of the made-up stream, whose rule never changes

Pair = tuple[dict[str, Any], float]


def pairs(name: str) -> Iterator[Pair]:
    if name == "unchanging":
        yield from unchanging()
        return
    for instance, number in dataset(f"river:{name}"):
        yield instance, float(number)


def unchanging() -> Iterator[Pair]:
    """Ten numbers, a linear rule, normal noise of standard deviation 1."""
    draw = np.random.default_rng(0)
    rule = draw.normal(0, 1, 10)
    for x in draw.normal(0, 1, (DRAWN, 10)):
        yield {f"x{place}": float(value) for place, value in enumerate(x)}, float(x @ rule + draw.normal())


def ours(name: str) -> NumberScore:
    model, encoder, score = create("regressor", {"input": "table"}), TableEncoder(), NumberScore()
    for offset, (row, number) in enumerate(pairs(name), 1):
        features = encoder.encode([row])[0]
        scored(score, taught(model, Example(offset, "label", features, repr(number))), number)
    return score


def scored(score: NumberScore, answer: Answer, number: float) -> None:
    score.add(Event("", "label", label=repr(number)), Said(answer, 1, score.guesses()))
    score.saw(repr(number))


def taught(model: Model, example: Example) -> Answer:
    """What it said before it was told."""
    answer = model.predict([example.features])[0]
    model.learn([example])
    return answer


def rivers(name: str, made: Any) -> NumberScore:
    score = NumberScore()
    for place, (row, number) in enumerate(pairs(name)):
        scored(score, Answer(repr(float(made.predict_one(row))) if place else None, ()), number)
        made.learn_one(row, number)
    return score


def peers() -> dict[str, Callable[[], Any]]:
    from river import linear_model, preprocessing, tree

    return {
        "river linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1),
        "river tree": lambda: preprocessing.StandardScaler() | tree.HoeffdingTreeRegressor(),
    }


def measured(name: str) -> dict[str, Any]:
    figures = ours(name).figures()
    row = {"stream": name, "numbers": figures["judged"], "ours": figures["mae"]}
    row |= {peer: rivers(name, make()).figures()["mae"] for peer, make in peers().items()}
    return row | {
        "no change": figures["no_change_mae"],
        "mean": figures["mean_mae"],
        "held %": 100 * (figures["covered"] or 0),
    }


def run() -> int:
    arguments = parser(__doc__ or "").parse_args()
    rows = [measured(name) for name in (*STREAMS, "unchanging")]
    if arguments.json:
        print_json({"mean_absolute_errors": rows})
    else:
        table("Prequential mean absolute error", list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
