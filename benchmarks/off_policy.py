"""Do off-policy estimates tell the truth? scikit-learn's digits as a bandit whose truth is known, and the Open Bandit data.

    digits: a weak classifier (50 digits) chooses, softmax with 10 % uniform; reward 1 where it is right
            target: a better classifier (150 digits), epsilon 0.1; truth: its chance of being right, over all other digits

Each repetition draws n digits anew, with replacement, and a choice for each, and estimates the target from those alone.
`covered` is how often the 95 % interval holds the truth, and how often the sequence held it at every tenth of the way.
Peer: Open Bandit Pipeline in ~/.cache/online/peers/obp, where it is installed; the same rewards are told to both.
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

from benchmarks.report import command, parser, print_json, progress, say, table, verdict
from benchmarks.service import Failed
from online.evaluation.bandit_formats import Columns, Reading, read_decisions
from online.evaluation.confidence import Interval, PolicySequence
from online.evaluation.decisions import Decision, Decisions, Gathering
from online.evaluation.estimators import USUAL, Terms, Weighed, doubly_robust, estimates, terms_of, weighed
from online.evaluation.formats import Bad
from online.evaluation.off_policy import Asks, Evaluation, evaluate
from online.evaluation.off_policy_shown import print_evaluation
from online.evaluation.outcomes import fitted, folds, growing
from online.evaluation.scorers import Scorers

FOLDS, FOLDED = 5, "dr, 5 folds"
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
        return gathering.made("digits", Bad()), places


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
    """estimator -> root mean square error, bias, how often its intervals held the truth, and how wide they are."""
    found = defaultdict[str, list[tuple[float, Interval | None, Interval | None]]](list)
    always, widths = list[bool](), list[float]()
    for seed in progress(range(repetitions), f"digits, n = {size:,}"):
        decisions, places = at.drawn(size, 1_000_000 * size + seed)
        each, terms = estimated(decisions, at.target_PK[places].ravel())
        for name, estimate in estimates(terms, 0.95, 1_000, seed).items():
            found[name].append((estimate.value, estimate.bootstrap, estimate.bernstein))
        held, width = sequence(each, at.truth)
        always.append(held)
        widths.append(width)
    summed = {name: summary(estimated_S, at.truth) for name, estimated_S in found.items()}
    return {**summed, "at any time": {"covered": float(np.mean(always)), "width": float(np.mean(widths))}}


def estimated(decisions: Decisions, chances_M: Floats) -> tuple[Weighed, dict[str, Terms]]:
    """Every estimator, and the doubly robust one with models that judge each other's folds."""
    agreeing_N, count = chances_M[decisions.chosen_N], len(decisions)
    weights_N = agreeing_N / decisions.propensities_N
    before_M = fitted(decisions, chances_M, weights_N, growing(count), True, quiet)
    others_M = fitted(decisions, chances_M, weights_N, folds(count, FOLDS), False, quiet)
    each = weighed(decisions, chances_M, agreeing_N, before_M, others_M)
    folded = weighed(decisions, chances_M, agreeing_N, others_M, others_M)
    return each, {**{name: terms_of(name, each, 0.0) for name in USUAL}, FOLDED: doubly_robust(folded)}


def summary(found: Sequence[tuple[float, Interval | None, Interval | None]], truth: float) -> dict[str, float]:
    errors = np.array([value for value, _, _ in found]) - truth
    made = {"rmse": float(np.sqrt((errors**2).mean())), "bias": float(errors.mean())}
    for place, (covered, width) in enumerate((("covered", "width"), ("bernstein_covered", "bernstein_width")), 1):
        intervals = [each[place] for each in found if each[place] is not None]
        if intervals:
            lows, highs = np.array(intervals).T
            made |= {covered: float(((lows <= truth) & (truth <= highs)).mean()), width: float((highs - lows).mean())}
    return made


def sequence(each: Weighed, truth: float) -> tuple[bool, float]:
    """Whether it held the truth whenever one looked, and how wide it is in the end."""
    made, always = PolicySequence(), True
    for part in np.array_split(np.arange(len(each.weights_N)), LOOKS):
        made.add(each.weights_N[part], each.rewards_N[part])
        low, high = made.interval()
        always = always and low <= truth <= high
    return always, high - low


# the Open Bandit data

FILES = {"random": "random_men_men.csv.gz", "bts": "bts_men_men.csv.gz"}
COLUMNS = Columns("item_id", "click", "propensity_score", "position", ("user*",))


def file(policy: str) -> str:
    folder = os.environ.get("ONLINE_SHARED_DATA")
    if not folder or not (Path(folder) / "open_bandit").exists():
        raise Failed("the Open Bandit data are not here: ONLINE_SHARED_DATA names the folder that holds open_bandit")
    return str(Path(folder) / "open_bandit" / FILES[policy])


@cache
def logged(policy: str) -> Decisions:
    return read_decisions(file(policy), Reading(columns=COLUMNS))[0]


@cache
def bts_chances() -> dict[str, dict[str, float]]:
    """position -> item -> how likely Bernoulli Thompson sampling showed it there: what its own file logged, averaged."""
    decisions, seen = logged("bts"), defaultdict[tuple[str, str], list[float]](list)
    actions = decisions.action_M[decisions.chosen_N].tolist()
    for slot, action, propensity in zip(decisions.slots, actions, decisions.propensities_N.tolist(), strict=True):
        seen[slot, decisions.actions[action]].append(propensity)
    means = defaultdict[str, dict[str, float]](dict)
    for (slot, action), propensities in seen.items():
        means[slot][action] = float(np.mean(propensities))
    return {slot: {item: mean / sum(items.values()) for item, mean in items.items()} for slot, items in means.items()}


def bts(decision: Decision) -> dict[str, float]:
    """A policy for `online evaluate --policy python:benchmarks.off_policy:bts`."""
    return bts_chances()[decision.slot]


def open_bandit() -> dict[str, Evaluation]:
    found = {}
    for policy, targets in (("random", ("logged", "python:benchmarks.off_policy:bts")), ("bts", ("logged", "uniform"))):
        say(f"Open Bandit data, {policy}")
        decisions = logged(policy)
        found[policy] = evaluate(decisions, targets, Scorers(decisions, quiet), Asks(), quiet)
    return found


# the peer

PEER_CODE = """
import json, sys, numpy as np
from obp.ope import DirectMethod, DoublyRobust, InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting
told = dict(np.load(sys.argv[1]))
q = told.pop("q")
plain = {"ips": InverseProbabilityWeighting(), "snips": SelfNormalizedInverseProbabilityWeighting()}
found = {name: each.estimate_policy_value(**told) for name, each in plain.items()}
for name, each in (("dm", DirectMethod()), ("dr", DoublyRobust())):
    found[name] = each.estimate_policy_value(estimated_rewards_by_reg_model=q, **told)
print(json.dumps(found))
"""


def agreement(at: World) -> dict[str, tuple[float, float]]:
    """estimator -> ours and the peer's, told the same rewards; empty where it is not installed."""
    if not PEER.exists():
        return {}
    decisions, places = at.drawn(1_000, 7)
    chances_M = at.target_PK[places].ravel()
    agreeing_N = chances_M[decisions.chosen_N]
    everything = np.full_like(chances_M, 1e-300) + chances_M
    weights_N = agreeing_N / decisions.propensities_N
    q_M = fitted(decisions, everything, weights_N, folds(len(decisions), FOLDS), False, quiet)
    each = weighed(decisions, chances_M, agreeing_N, q_M, q_M)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "told.npz"
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
    return {name: (terms_of(name, each, 0.0).value, value) for name, value in json.loads(done.stdout).items()}


# the command


def main() -> int:
    flags = parser(__doc__ or "")
    flags.add_argument("--repetitions", type=int, default=300)
    flags.add_argument("--sizes", default="300,1000,5000", help="decisions in a repetition, comma-separated")
    told = flags.parse_args()
    torch.set_num_threads(1)
    at = world()
    digits = {size: repeated(size, told.repetitions, at) for size in map(int, told.sizes.split(","))}
    peer, clicks = agreement(at), open_bandit()
    if told.json:
        shown = {policy: asdict(each) for policy, each in clicks.items()}
        print_json({"truth": at.truth, "digits": {str(n): d for n, d in digits.items()}, "peer": peer, "clicks": shown})
    else:
        show(digits, at.truth, told.repetitions)
        show_peer(peer)
        for each in clicks.values():
            print_evaluation(each)
    return 0


def show(digits: dict[int, dict[str, dict[str, float]]], truth: float, repetitions: int) -> None:
    columns = ("rmse", "bias", "covered", "width", "bernstein_covered", "bernstein_width")
    for size, found in digits.items():
        table(
            f"digits, {size:,} decisions, {repetitions} repetitions, truth {truth:.4f}",
            ("estimator", "RMSE", "bias", "covered %", "width", "Bernstein %", "width"),
            (
                (name, *(cell(each.get(column), "covered" in column) for column in columns))
                for name, each in found.items()
            ),
        )
        ratio, covered = found["dr"]["rmse"] / found["ips"]["rmse"], found["dr"]["covered"]
        low, high = COVERAGE
        say(f"RMSE of dr {ratio:.2f} of that of ips: {verdict(ratio, MOST_RMSE)}")
        say(f"dr covers {covered:.3f}, bar {low} to {high}: {'met' if low <= covered <= high else 'missed'}")


def cell(value: float | None, percent: bool) -> str:
    return "" if value is None else f"{100 * value:.1f}" if percent else f"{value:.4f}"


def show_peer(peer: dict[str, tuple[float, float]]) -> None:
    if not peer:
        say(f"no peer: Open Bandit Pipeline (obp) is not installed at {PEER}")
        return
    rows = [(name, f"{ours:.12f}", f"{theirs:.12f}") for name, (ours, theirs) in peer.items()]
    table("the same decisions and the same q", ("estimator", "ours", "obp"), rows)


if __name__ == "__main__":
    command(main)
