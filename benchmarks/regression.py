"""Measures the error of predicted numbers, prequentially: a number is predicted, judged, and then learned.

    row -> TableEncoder -> regressor                            ours, with default options
    the same with follow = false                                ours, all examples count equally, as in earlier releases
    row -> StandardScaler | LinearRegression(intercept_lr=0.1)  river's, with the rate of its documentation
    row -> StandardScaler | HoeffdingTreeRegressor              river's
    row -> AMRules, row -> ARFRegressor                         river's, which follow a moving world
    the last number; the mean of all numbers so far             baselines without a model

The streams: river's two small ones, one whose relation never changes, and Friedman's with drift (`--rows`,
for each of `--seeds`): local and expanding abrupt drift (lea), global recurring abrupt drift (gra), global slow
gradual drift (gsg); its changes lie at a quarter, at a half and, for lea, at three quarters of the rows. The table also shows
how often the 90 % intervals contained the number, and how many rows a second ours predicts and learns.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.report import command, create_parser, print_json, say, table
from online.evaluation.sources.datasets import open_dataset
from online.models import Answer, Example, Model, create
from online.models.encoders.rows import TableEncoder
from online.models.updates import answer_by_updates
from online.schemas.events import Event
from online.scoring.number_score import NumberScore
from online.scoring.score import JudgedOutcomes, PendingOutcome

SMALL = ("TrumpApproval", "ChickWeights")
DRIFTS = ("lea", "gra", "gsg")
STATIONARY_ROWS = 2_000  # of the synthetic stream, whose relation never changes
LONGEST_TRANSITION = 2_000  # rows of a gradual drift; at most a fifth of a quarter of the stream

Pair = tuple[dict[str, Any], float]
Pairs = Callable[[], Iterator[Pair]]


def create_streams(rows: int, seeds: list[int]) -> dict[str, Pairs]:
    streams: dict[str, Pairs] = {name: partial(small, name) for name in SMALL}
    streams["stationary"] = stationary
    streams |= {f"Friedman {drift} {seed}": partial(friedman, drift, seed, rows) for drift in DRIFTS for seed in seeds}
    return streams


def small(name: str) -> Iterator[Pair]:
    for instance, number in open_dataset(f"river:{name}"):
        yield instance, float(number)


def friedman(drift: str, seed: int, rows: int) -> Iterator[Pair]:
    from river.datasets import synth

    quarter = rows // 4
    changes = (quarter, 2 * quarter, 3 * quarter) if drift == "lea" else (quarter, 2 * quarter)
    gradual = {} if drift == "lea" else {"transition_window": min(max(10, quarter // 5), LONGEST_TRANSITION)}
    stream: Any = synth.FriedmanDrift(drift_type=drift, position=changes, seed=seed, **gradual)
    for x, number in islice(stream, rows):
        yield {str(name): value for name, value in x.items()}, float(number)


def stationary() -> Iterator[Pair]:
    """Generate ten numbers, a linear relation, and normal noise of standard deviation 1."""
    draw = np.random.default_rng(0)
    weights = draw.normal(0, 1, 10)
    for x in draw.normal(0, 1, (STATIONARY_ROWS, 10)):
        yield {f"x{place}": float(value) for place, value in enumerate(x)}, float(x @ weights + draw.normal())


def our_score(pairs: Pairs, follow: bool) -> tuple[NumberScore, float]:
    """The score, and the rows that are predicted and learned in a second of one core."""
    model, encoder, score = create("regressor", {"input": "table", "follow": follow}), TableEncoder(), NumberScore()
    answer_by_updates(model)
    spent, offset = 0.0, 0
    for offset, (row, number) in enumerate(pairs(), 1):
        start = time.process_time()
        features = encoder.encode([row])[0]
        answer = predict_then_learn(model, Example(offset, "label", features, repr(number)))
        spent += time.process_time() - start
        add_score(score, answer, number)
    return score, offset / spent


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


def river_score(pairs: Pairs, model: Any) -> NumberScore:
    score = NumberScore()
    for place, (row, number) in enumerate(pairs()):
        add_score(score, Answer(repr(float(model.predict_one(row))) if place else None, ()), number)
        model.learn_one(row, number)
    return score


def peers() -> dict[str, Callable[[], Any]]:
    from river import forest, linear_model, preprocessing, rules, tree

    return {
        "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1),
        "tree": lambda: preprocessing.StandardScaler() | tree.HoeffdingTreeRegressor(),
        "AMRules": rules.AMRules,
        "ARF": lambda: forest.ARFRegressor(seed=1),
    }


def measure(name: str, pairs: Pairs, chosen: list[str]) -> dict[str, Any]:
    say(f"{name} ...")
    (score, speed), (equal, equal_speed) = our_score(pairs, follow=True), our_score(pairs, follow=False)
    figures, before = score.figures(), equal.figures()
    row = {"stream": name, "numbers": figures["judged"], "ours": figures["mae"], "all equal": before["mae"]}
    row |= {peer: river_score(pairs, make()).figures()["mae"] for peer, make in peers().items() if peer in chosen}
    return row | {
        "no change": figures["no_change_mae"],
        "mean": figures["mean_mae"],
        "covered %": 100 * (figures["covered"] or 0),
        "all equal: %": 100 * (before["covered"] or 0),
        "rows/s": round(speed),
        "all equal: rows/s": round(equal_speed),
    }


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--rows", type=int, default=6_000, help="rows of each of Friedman's streams (default: 6000)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], help="of Friedman's streams (default: 1 2 3)"
    )
    parser.add_argument("--peers", nargs="*", default=list(peers()), help="models of river to run (default: all four)")
    flags = parser.parse_args()
    streams = create_streams(flags.rows, flags.seeds)
    rows = [measure(name, pairs, flags.peers) for name, pairs in streams.items()]
    if flags.json:
        print_json({"mean_absolute_errors": rows})
    else:
        table("Prequential mean absolute error", list(rows[0]), [list(row.values()) for row in rows])
    return 0


if __name__ == "__main__":
    command(run)
