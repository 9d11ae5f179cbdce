"""Compares off-policy estimates with the truth: scikit-learn's digits as a bandit, and the Open Bandit data.

    logging policy: softmax of a weak classifier (50 digits) with 10 % uniform choices; reward 1 if it is right
    target policy: a better classifier (150 digits) with epsilon 0.1; truth: its accuracy over all other digits

Each repetition draws n digits with replacement and a choice for each of them, and estimates the value
of the target policy from those alone. `covered` is how often the 95 % interval contains the truth,
and how often the anytime interval contains it at every tenth of the log. Peer: Open Bandit Pipeline
in ~/.cache/online/peers/obp, if it is installed, with the same rewards.
"""

import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.report import command, create_parser, print_json, progress, say, table, verdict
from benchmarks.service import BenchmarkError
from online.evaluation.sources.bad_lines import BadLines
from online.plugins.off_policy.decisions import Decisions, DecisionsBuilder, LoggedChoice
from online.plugins.off_policy.estimate_table import print_evaluation
from online.plugins.off_policy.estimators import (
    DEFAULT_ESTIMATORS,
    EstimatorTerms,
    WeighedLog,
    compute_estimates,
    compute_terms,
    doubly_robust,
    weigh,
)
from online.plugins.off_policy.logged_decisions import CsvColumns, DecisionReadOptions, read_decision_log
from online.plugins.off_policy.policy_evaluation import Evaluation, EvaluationOptions, evaluate
from online.plugins.off_policy.reward_model import assign_folds, assign_growing_stretches, predict_rewards
from online.plugins.off_policy.scorers import Scorers
from online.scoring.intervals import Interval, PolicySequence

FOLDS, FOLDED = 5, "dr, 5 folds"
INSPECTIONS = 10  # of the anytime interval while the log grows
MAX_RMSE_RATIO, COVERAGE = 0.7, (0.93, 0.97)  # targets: RMSE of dr relative to ips; coverage of dr
PEER = Path.home() / ".cache" / "online" / "peers" / "obp" / "bin" / "python"

Floats = NDArray[np.float64]


def quiet(what: str, done: int, of: int) -> None:
    """Print no progress within a repetition."""


# digits


@dataclass(frozen=True, slots=True)
class Bandit:
    """P digits, their classes, and the probabilities of the ten choices under both policies."""

    rows_PD: Floats
    class_P: NDArray[np.int64]
    logging_PK: Floats
    target_PK: Floats

    @property
    def truth(self) -> float:
        return float(self.target_PK[np.arange(len(self.class_P)), self.class_P].mean())

    def draw_decisions(self, count: int, seed: int) -> tuple[Decisions, NDArray[np.int64]]:
        """Return decisions of the logging policy, and the places of their digits."""
        draw = np.random.Generator(np.random.Philox(seed))
        places = draw.integers(0, len(self.class_P), count)
        chances_NK = self.logging_PK[places]
        chosen = (chances_NK.cumsum(1) < draw.random((count, 1))).sum(1).clip(max=9)
        builder = DecisionsBuilder(input="vector")
        for n, (place, choice) in enumerate(zip(places.tolist(), chosen.tolist(), strict=True)):
            builder.add(
                str(n),
                [(str(k), chance) for k, chance in enumerate(chances_NK[n].tolist())],
                str(choice),
                float(chances_NK[n, choice]),
                float(choice == self.class_P[place]),
                self.rows_PD[place].tobytes(),
            )
        return builder.build("digits", BadLines()), places


def create_bandit() -> Bandit:
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
    return Bandit(rows[rest], classes[rest], 0.9 * logging + 0.1 / 10, 0.9 * target + 0.1 / 10)


def measure_estimators(size: int, repetitions: int, bandit: Bandit) -> dict[str, dict[str, float]]:
    """Return for each estimator: root mean square error, bias, coverage of its intervals, and their widths."""
    estimates = defaultdict[str, list[tuple[float, Interval | None, Interval | None]]](list)
    always, widths = list[bool](), list[float]()
    for seed in progress(range(repetitions), f"digits, n = {size:,}"):
        decisions, places = bandit.draw_decisions(size, 1_000_000 * size + seed)
        weighed, terms = compute_all_terms(decisions, bandit.target_PK[places].ravel())
        for name, estimate in compute_estimates(terms, 0.95, 1_000, seed).items():
            estimates[name].append((estimate.value, estimate.bootstrap, estimate.bernstein))
        covered, width = anytime_interval(weighed, bandit.truth)
        always.append(covered)
        widths.append(width)
    summed = {name: summarize(estimates_S, bandit.truth) for name, estimates_S in estimates.items()}
    return {**summed, "at any time": {"covered": float(np.mean(always)), "width": float(np.mean(widths))}}


def compute_all_terms(decisions: Decisions, chances_M: Floats) -> tuple[WeighedLog, dict[str, EstimatorTerms]]:
    """Return the terms of every estimator, and of the doubly robust one with cross-fitted models."""
    target_N, count = chances_M[decisions.chosen_N], len(decisions)
    weights_N = target_N / decisions.propensities_N
    growing_M = predict_rewards(decisions, chances_M, weights_N, assign_growing_stretches(count), True, quiet)
    folds_M = predict_rewards(decisions, chances_M, weights_N, assign_folds(count, FOLDS), False, quiet)
    each = weigh(decisions, chances_M, target_N, growing_M, folds_M)
    folded = weigh(decisions, chances_M, target_N, folds_M, folds_M)
    return each, {
        **{name: compute_terms(name, each, 0.0) for name in DEFAULT_ESTIMATORS},
        FOLDED: doubly_robust(folded),
    }


def summarize(estimates: Sequence[tuple[float, Interval | None, Interval | None]], truth: float) -> dict[str, float]:
    errors = np.array([value for value, _, _ in estimates]) - truth
    summary = {"rmse": float(np.sqrt((errors**2).mean())), "bias": float(errors.mean())}
    for place, (covered, width) in enumerate((("covered", "width"), ("bernstein_covered", "bernstein_width")), 1):
        intervals = [each[place] for each in estimates if each[place] is not None]
        if intervals:
            lows, highs = np.array(intervals).T
            summary |= {
                covered: float(((lows <= truth) & (truth <= highs)).mean()),
                width: float((highs - lows).mean()),
            }
    return summary


def anytime_interval(weighed: WeighedLog, truth: float) -> tuple[bool, float]:
    """Return whether the anytime interval always contained the truth, and its final width."""
    sequence, always = PolicySequence(), True
    for part in np.array_split(np.arange(len(weighed.weights_N)), INSPECTIONS):
        sequence.add(weighed.weights_N[part], weighed.rewards_N[part])
        low, high = sequence.interval()
        always = always and low <= truth <= high
    return always, high - low


# the Open Bandit data

FILES = {"random": "random_men_men.csv.gz", "bts": "bts_men_men.csv.gz"}
COLUMNS = CsvColumns("item_id", "click", "propensity_score", "position", ("user*",))


def log_file(policy: str) -> str:
    folder = os.environ.get("ONLINE_SHARED_DATA")
    if not folder or not (Path(folder) / "open_bandit").exists():
        raise BenchmarkError(
            "the Open Bandit data does not exist; set ONLINE_SHARED_DATA to the folder that contains open_bandit"
        )
    return str(Path(folder) / "open_bandit" / FILES[policy])


@cache
def read_log(policy: str) -> Decisions:
    return read_decision_log(log_file(policy), DecisionReadOptions(columns=COLUMNS))[0]


@cache
def bts_chances() -> dict[str, dict[str, float]]:
    """Return position -> item -> the mean probability that Bernoulli Thompson sampling logged for it."""
    decisions, seen = read_log("bts"), defaultdict[tuple[str, str], list[float]](list)
    actions = decisions.action_M[decisions.chosen_N].tolist()
    for slot, action, propensity in zip(decisions.slots, actions, decisions.propensities_N.tolist(), strict=True):
        seen[slot, decisions.actions[action]].append(propensity)
    means = defaultdict[str, dict[str, float]](dict)
    for (slot, action), propensities in seen.items():
        means[slot][action] = float(np.mean(propensities))
    return {slot: {item: mean / sum(items.values()) for item, mean in items.items()} for slot, items in means.items()}


def bts(decision: LoggedChoice) -> dict[str, float]:
    """The policy of `online evaluate --policy python:benchmarks.off_policy:bts`."""
    return bts_chances()[decision.slot]


def open_bandit() -> dict[str, Evaluation]:
    evaluations = {}
    for policy, targets in (("random", ("logged", "python:benchmarks.off_policy:bts")), ("bts", ("logged", "uniform"))):
        say(f"Open Bandit data, {policy}")
        decisions = read_log(policy)
        evaluations[policy] = evaluate(decisions, targets, Scorers(decisions, quiet), EvaluationOptions(), quiet)
    return evaluations


# the peer

PEER_CODE = """
import json, sys, numpy as np
from obp.ope import DirectMethod, DoublyRobust, InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting
inputs = dict(np.load(sys.argv[1]))
q = inputs.pop("q")
plain = {"ips": InverseProbabilityWeighting(), "snips": SelfNormalizedInverseProbabilityWeighting()}
found = {name: each.estimate_policy_value(**inputs) for name, each in plain.items()}
for name, each in (("dm", DirectMethod()), ("dr", DoublyRobust())):
    found[name] = each.estimate_policy_value(estimated_rewards_by_reg_model=q, **inputs)
print(json.dumps(found))
"""


def agreement(bandit: Bandit) -> dict[str, tuple[float, float]]:
    """Return by estimator our value and the peer's, for the same rewards; nothing if the peer is not installed."""
    if not PEER.exists():
        return {}
    decisions, places = bandit.draw_decisions(1_000, 7)
    chances_M = bandit.target_PK[places].ravel()
    target_N = chances_M[decisions.chosen_N]
    everything = np.full_like(chances_M, 1e-300) + chances_M
    weights_N = target_N / decisions.propensities_N
    q_M = predict_rewards(decisions, everything, weights_N, assign_folds(len(decisions), FOLDS), False, quiet)
    each = weigh(decisions, chances_M, target_N, q_M, q_M)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inputs.npz"
        shape = (len(decisions), 10, 1)
        np.savez(
            path,
            reward=decisions.rewards_N,
            action=decisions.action_M[decisions.chosen_N],
            pscore=decisions.propensities_N,
            action_dist=chances_M.reshape(shape),
            position=np.zeros(len(decisions), int),
            q=q_M.reshape(shape),
        )
        done = subprocess.run([PEER, "-c", PEER_CODE, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"the peer did not run: {done.stderr.strip().splitlines()[-1]}")
        return {}
    return {name: (compute_terms(name, each, 0.0).value, value) for name, value in json.loads(done.stdout).items()}


# the command


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--sizes", default="300,1000,5000", help="decisions in a repetition, comma-separated")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    bandit = create_bandit()
    digits = {size: measure_estimators(size, flags.repetitions, bandit) for size in map(int, flags.sizes.split(","))}
    peer, clicks = agreement(bandit), open_bandit()
    if flags.json:
        shown = {policy: asdict(each) for policy, each in clicks.items()}
        print_json(
            {"truth": bandit.truth, "digits": {str(n): d for n, d in digits.items()}, "peer": peer, "clicks": shown}
        )
    else:
        print_digits(digits, bandit.truth, flags.repetitions)
        print_peer(peer)
        for each in clicks.values():
            print_evaluation(each)
    return 0


def print_digits(digits: dict[int, dict[str, dict[str, float]]], truth: float, repetitions: int) -> None:
    columns = ("rmse", "bias", "covered", "width", "bernstein_covered", "bernstein_width")
    for size, estimators in digits.items():
        table(
            f"digits, {size:,} decisions, {repetitions} repetitions, truth {truth:.4f}",
            ("estimator", "RMSE", "bias", "covered %", "width", "Bernstein %", "width"),
            (
                (name, *(cell(each.get(column), "covered" in column) for column in columns))
                for name, each in estimators.items()
            ),
        )
        ratio, covered = estimators["dr"]["rmse"] / estimators["ips"]["rmse"], estimators["dr"]["covered"]
        low, high = COVERAGE
        say(f"RMSE of dr {ratio:.2f} of that of ips: {verdict(ratio, MAX_RMSE_RATIO)}")
        say(f"dr covers {covered:.3f}, target {low} to {high}: {'met' if low <= covered <= high else 'missed'}")


def cell(value: float | None, percent: bool) -> str:
    return "" if value is None else f"{100 * value:.1f}" if percent else f"{value:.4f}"


def print_peer(peer: dict[str, tuple[float, float]]) -> None:
    if not peer:
        say(f"no peer: Open Bandit Pipeline (obp) is not installed at {PEER}")
        return
    rows = [(name, f"{ours:.12f}", f"{theirs:.12f}") for name, (ours, theirs) in peer.items()]
    table("the same decisions and the same q", ("estimator", "ours", "obp"), rows)


if __name__ == "__main__":
    command(main)
