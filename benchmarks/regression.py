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
from online.evaluation.replay import NumberScore
from online.evaluation.sources import open_source
from online.models import Answer, Example, Model, create
from online.models.encoder import TableEncoder

STREAMS = ("TrumpApproval", "ChickWeights")
DRAWN = 2_000  # of the made-up stream, whose rule never changes

Pair = tuple[dict[str, Any], float]


def pairs(name: str) -> Iterator[Pair]:
    if name == "unchanging":
        yield from unchanging()
        return
    for line in open_source(f"river:{name}", None).lines():
        yield line.instance, float(line.entry.event.label)


def unchanging() -> Iterator[Pair]:
    """Ten numbers, a linear rule, normal noise of standard deviation 1."""
    draw = np.random.default_rng(0)
    rule = draw.normal(0, 1, 10)
    for x in draw.normal(0, 1, (DRAWN, 10)):
        yield {f"x{place}": float(value) for place, value in enumerate(x)}, float(x @ rule + draw.normal())


def ours(name: str) -> tuple[NumberScore, float]:
    """The score, and the share of the numbers that their interval held, where there was one."""
    model, encoder, score, held = create("regressor", {"input": "table"}), TableEncoder(), NumberScore(), list[bool]()
    for offset, (row, number) in enumerate(pairs(name), 1):
        features = encoder.encode([row])[0]
        answer = taught(model, Example(offset, "label", features, repr(number)))
        score.add(answer.choice, repr(number))
        if answer.interval is not None:
            held.append(answer.interval[0] <= number <= answer.interval[1])
    return score, float(np.mean(held))


def taught(model: Model, example: Example) -> Answer:
    """What it said before it was told."""
    answer = model.predict([example.features])[0]
    model.learn([example])
    return answer


def rivers(name: str, made: Any) -> NumberScore:
    score = NumberScore()
    for place, (row, number) in enumerate(pairs(name)):
        score.add(repr(float(made.predict_one(row))) if place else None, repr(number))
        made.learn_one(row, number)
    return score


def peers() -> dict[str, Callable[[], Any]]:
    from river import linear_model, preprocessing, tree

    return {
        "river linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1),
        "river tree": lambda: preprocessing.StandardScaler() | tree.HoeffdingTreeRegressor(),
    }


def measured(name: str) -> dict[str, Any]:
    score, held = ours(name)
    figures = score.figures()
    row = {"stream": name, "numbers": score.rated, "ours": figures["mae"]}
    row |= {peer: rivers(name, make()).figures()["mae"] for peer, make in peers().items()}
    return row | {"no change": figures["no_change_mae"], "mean": figures["mean_mae"], "held %": 100 * held}


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
