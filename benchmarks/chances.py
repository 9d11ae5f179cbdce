"""Fits and checks the chance that a reply is right (online/models/ranker/likeness.py), on CLINC150.

    names of some intents, and some training questions of each --> ranker --> its best candidate for validation questions
        --logistic regression--> the five numbers --> calibration on test questions and a seed of its own, stage by stage

A stage knows 20, 60 or 150 intents and 0, 1, 3, 7 or 20 questions of each. It is asked 300 questions of these intents, 80
of the others and 80 of no intent. The last seed is not fitted: it is asked test questions, the others validation questions.
"""

from argparse import Namespace
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.chat import Bot, Dataset
from benchmarks.clinc150 import Split, split
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table
from online.models.ranker.choice import EVIDENCE_GAIN, ReplyChooser
from online.models.ranker.exemplars import compute_evidence, normalise_rows, stack_features
from online.models.ranker.likeness import (
    BIAS,
    CLOSENESS,
    FAMILIARITY,
    LEAD,
    LEAD_SCALE,
    RIVAL,
    Likeness,
    estimate_chances,
    find_familiarities,
    measure_lead,
)
from online.models.ranker.ranker import Ranker

INTENTS, TAUGHT, SEEDS = (20, 60, 150), (0, 1, 3, 7, 20), 3
INSIDE, OUTSIDE = 300, 80  # questions
CHOSEN, BINS = 0.6, 10  # CHOSEN: the default of min_chance

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best candidate for one question. source: "inside" the repertoire, "outside" it, or of "no intent"."""

    score: float
    likeness: Likeness
    lead: float
    is_right: bool
    source: str

    @property
    def chance(self) -> float:
        return float(estimate_chances(np.array([self.score]), self.lead, self.likeness)[0])

    @property
    def regressors(self) -> list[float]:
        """Familiarity, closeness, rival, and the squashed lead."""
        return [*(float(cosine_K[0]) for cosine_K in self.likeness), float(np.tanh(self.lead / LEAD_SCALE))]


@cache
def clinc() -> Dataset:
    return Dataset.clinc()


@cache
def read_questions(is_judge: bool) -> tuple[Split, Split]:
    """The questions of the intents and those of no intent: to judge by, or to fit to."""
    names = ("test", "oos_test") if is_judge else ("val", "oos_val")
    return split(names[0]), split(names[1])


def rank_stage(seed: int, intents: int, taught: int) -> list[Ranked]:
    draw, train = np.random.default_rng([seed, intents, taught]), clinc().train
    asked, no_intent = read_questions(is_judge=seed == SEEDS - 1)
    labels_N, right_N = np.array(train.labels), np.array(asked.labels)
    known = draw.choice(sorted(clinc().names), intents, replace=False).tolist()
    bot = Dataset(train, asked, {name: clinc().names[name] for name in known}).bot(learn_every=1_000_000)
    for name in known:
        for place in draw.choice(np.flatnonzero(labels_N == name), taught, replace=False):
            bot.send("label", train.features[place].tobytes(), name)
    is_inside_N = np.isin(right_N, known)
    pools = [
        ("inside", asked, np.flatnonzero(is_inside_N), INSIDE),
        ("outside", asked, np.flatnonzero(~is_inside_N), OUTSIDE),
        ("no intent", no_intent, np.arange(len(no_intent.labels)), OUTSIDE),
    ]
    chooser = learned_chooser(bot)
    ranked = list[Ranked]()
    for source, pool, places, count in pools:
        for place in draw.choice(places, min(count, len(places)), replace=False).tolist():
            ranked.append(rank(chooser, pool.features[place].tobytes(), pool.labels[place], source))
    return ranked


def learned_chooser(bot: Bot) -> ReplyChooser:
    bot.learn()
    assert isinstance(bot.model, Ranker)
    return bot.model._chooser()


def rank(chooser: ReplyChooser, question: bytes, right: str, source: str) -> Ranked:
    x_1D = stack_features([question])
    unit_1D = normalise_rows(x_1D)
    cosine_E = chooser.neighbours.cosines(unit_1D)[0]
    sums_R = (x_1D.astype(np.float32) @ chooser.weights.matrix + chooser.weights.bias)[0]
    scores_R = sums_R + EVIDENCE_GAIN * compute_evidence(cosine_E, chooser.neighbours, len(sums_R))
    best_1 = scores_R.argmax(keepdims=True)
    familiarity_R = find_familiarities(unit_1D[0], chooser.texts_RD, cosine_E, chooser.neighbours, ())
    likeness = Likeness.of(unit_1D[0], best_1, familiarity_R, chooser.weights.active, chooser.centres_RD, ())
    best = int(best_1[0])
    is_right = chooser.replies[best].id == right
    return Ranked(float(scores_R[best]), likeness, measure_lead(scores_R), is_right, source)


def fit(ranked: list[Ranked]) -> list[float]:
    """The weights of the regressors, and the bias."""
    from sklearn.linear_model import LogisticRegression

    inputs, right = [each.regressors for each in ranked], [each.is_right for each in ranked]
    fitted = LogisticRegression(C=1e6, max_iter=2_000).fit(inputs, right)
    return [*map(float, fitted.coef_[0]), float(fitted.intercept_[0])]


def measure_error(ranked: list[Ranked]) -> float:
    """The expected calibration error of the best candidate, in percent (Naeini et al. 2015)."""
    chance_N = np.array([each.chance for each in ranked])
    right_N = np.array([each.is_right for each in ranked])
    bin_N = np.minimum((chance_N * BINS).astype(int), BINS - 1)
    return 100 * sum(abs(float((chance_N - right_N)[bin_N == place].sum())) for place in range(BINS)) / len(ranked)


def measure_given(ranked: list[Ranked]) -> list[tuple[str, float, float]]:
    """Of the questions of each source, in percent: those that get the right reply at `CHOSEN`, and a wrong one."""
    rows = []
    for source in ("inside", "outside", "no intent"):
        right_N = np.array([each.is_right for each in ranked if each.source == source])
        given_N = np.array([each.chance >= CHOSEN for each in ranked if each.source == source])
        rows.append((source, 100 * float((given_N & right_N).mean()), 100 * float((given_N & ~right_N).mean())))
    return rows


def main() -> int:
    flags: Namespace = create_parser(__doc__ or "").parse_args()
    run_on_one_thread()
    stages = [(intents, taught) for intents in INTENTS for taught in TAUGHT]
    runs = [[rank_stage(seed, *stage) for stage in stages] for seed in progress(range(SEEDS), "seeds")]
    fitted = fit([each for run in runs[:-1] for stage in run for each in stage])
    rows: list[tuple[object, ...]] = [("all", measure_error([each for stage in runs[-1] for each in stage]))]
    rows += [(f"{n} intents, {k} of each", measure_error(run)) for (n, k), run in zip(stages, runs[-1], strict=True)]
    used = (FAMILIARITY, CLOSENESS, -RIVAL, LEAD, BIAS)
    given = measure_given([each for stage in runs[-1] for each in stage])
    if flags.json:
        print_json({"benchmark": "chances", "fitted": fitted, "used": used, "error": rows, "given": given})
        return 0
    table(
        "the five numbers",
        ("", "familiarity", "closeness", "rival", "lead", "bias"),
        [("fitted", *fitted), ("used", *used)],
    )
    table(f"given at a chance of {CHOSEN}, seed {SEEDS - 1}", ("questions", "right, %", "wrong, %"), given)
    table(f"calibration of the best candidate, seed {SEEDS - 1}", ("stage", "expected calibration error, %"), rows)
    return 0


if __name__ == "__main__":
    command(main)
