"""Do off-policy estimates tell the truth? scikit-learn's digits as a bandit whose truth is known, and the Open Bandit data.

    digits: a weak classifier (50 digits) chooses, softmax with 10 % uniform; reward 1 where it is right
            target: a better classifier (150 digits), epsilon 0.1; truth: its chance of being right, over all other digits

Each repetition draws n digits anew, with replacement, and a choice for each, and estimates the target from those alone.
`covered` is how often the 95 % interval holds the truth, and how often the sequence held it at every tenth of the way.
Peer: Open Bandit Pipeline in ~/.cache/online/peers/obp, where it is installed; the same rewards are told to both.
"""

import json
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


from benchmarks.report import command, parser, print_json, progress, say, table, verdict
from online.evaluation.bandit_formats import Columns, of_others
from online.evaluation.confidence import PolicySequence
from online.evaluation.decisions import Decision, Decisions, Gathering
from online.evaluation.estimators import USUAL, Weighed, estimates, ips, terms_of, weighed
from online.evaluation.formats import Bad
from online.evaluation.off_policy import Asks, Judged, evaluate
from online.evaluation.outcomes import Rewards, cross_fitted
from online.evaluation.scorers import Scorers

SIZES = (300, 1_000, 5_000)
FOLDS = 5
LOOKS = 10  # at the sequence, on the way
MOST_RMSE, COVERAGE = 0.7, (0.93, 0.97)  # of ips; of the doubly robust interval
PEER = Path.home() / ".cache" / "online" / "peers" / "obp" / "bin" / "python"

Floats = NDArray[np.float64]


def quiet(what: str, done: int, of: int) -> None:
    """No bar within a repetition."""


# digits


@dataclass(frozen=True, slots=True)
class World:
    """P digits: what they are, how each policy chooses among the ten labels."""

    rows_PD: Floats
    class_P: NDArray[np.int64]
    logging_PK: Floats
    target_PK: Floats

    @property
    def truth(self) -> float:
        return float(self.target_PK[np.arange(len(self.class_P)), self.class_P].mean())

    def drawn(self, count: int, seed: int) -> tuple[Decisions, NDArray[np.int64]]:
        """Decisions of the logging policy, and which digits they are about."""
        draw = np.random.Generator(np.random.Philox(seed))
        places = draw.integers(0, len(self.class_P), count)
        chances_NK = self.logging_PK[places]
        chosen = (chances_NK.cumsum(1) < draw.random((count, 1))).sum(1).clip(max=9)
        gathering = Gathering(input="vector")
        for n, (place, choice) in enumerate(zip(places.tolist(), chosen.tolist(), strict=True)):
            gathering.add(
                str(n),
                [(str(k), chance) for k, chance in enumerate(chances_NK[n].tolist())],
                str(choice),
                float(chances_NK[n, choice]),
                float(choice == self.class_P[place]),
                self.rows_PD[place].tobytes(),
            )
        return gathering.made("digits"), places


def world() -> World:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rows, classes = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.Philox(0)).permutation(len(classes))
    weak_rows, good_rows, rest = np.split(order, [50, 200])
    weak = LogisticRegression(C=1e-3, max_iter=2_000).fit(rows[weak_rows], classes[weak_rows])
    good = LogisticRegression(max_iter=2_000).fit(rows[good_rows], classes[good_rows])
    logging = np.zeros((len(rest), 10))
    logging[:, weak.classes_] = weak.predict_proba(rows[rest])
    target = np.eye(10)[good.predict(rows[rest])]
    return World(rows[rest], classes[rest], 0.9 * logging + 0.1 / 10, 0.9 * target + 0.1 / 10)


def repeated(size: int, repetitions: int, at: World) -> dict[str, dict[str, float]]:
    """estimator -> root mean square error, bias, how often its intervals held the truth, and their width."""
    errors, held, widths = defaultdict[str, list[float]](list), defaultdict[str, list[bool]](list), defaultdict[str, list[float]](list)
    for seed in progress(range(repetitions), f"digits, n = {size:,}"):
        decisions, places = at.drawn(size, 1_000_000 * size + seed)
        each = beside(decisions, at.target_PK[places])
        terms = {name: terms_of(name, each, 0.0) for name in USUAL}
        for name, found in estimates(terms, 0.95, 1_000, seed).items():
            errors[name].append(found.value - at.truth)
            held[name].append(found.bootstrap[0] <= at.truth <= found.bootstrap[1])
            widths[name].append(found.bootstrap[1] - found.bootstrap[0])
            if found.bernstein is not None:
                held[f"{name} bernstein"].append(found.bernstein[0] <= at.truth <= found.bernstein[1])
                widths[f"{name} bernstein"].append(found.bernstein[1] - found.bernstein[0])
        always, width = sequence(each, at.truth)
        held["ips anytime"].append(always)
        widths["ips anytime"].append(width)
    return {
        name: {
            "rmse": float(np.sqrt(np.mean(np.square(errors[name])))) if name in errors else float("nan"),
            "bias": float(np.mean(errors[name])) if name in errors else float("nan"),
            "covered": float(np.mean(held[name])),
            "width": float(np.mean(widths[name])),
        }
        for name in held
    }


def beside(decisions: Decisions, chances_NK: Floats) -> Weighed:
    chances_M = chances_NK.ravel()
    return weighed(decisions, chances_M, chances_M[decisions.chosen_N], cross_fitted(decisions, FOLDS, quiet))


def sequence(each: Weighed, truth: float) -> tuple[bool, float]:
    """Whether it held the truth whenever one looked, and how wide it is in the end."""
    made, always = PolicySequence(), True
    for part in np.array_split(np.arange(len(each.weights_N)), LOOKS):
        made.add(each.weights_N[part], each.rewards_N[part])
        low, high = made.interval()
        always = always and low <= truth <= high
    return always, high - low
