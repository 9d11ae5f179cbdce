"""Contextual bandits with the ranker's inputs: the question, and its similarity to each reply's name.

    peer(described [R, D], questions [T, D], right [T], test [N, D], progress) -> (hits [T], answers to the test [N])

LinUCB and epsilon-greedy are implemented here in numpy. Vowpal Wabbit runs in a separate Python that
has `vowpalwabbit` from PyPI (its path is in ONLINE_VW_PYTHON, by default in the user's cache). Its
gamma is 1,000: with the default of 10, its choice among 150 actions is still almost uniform after
hundreds of turns.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.service import BenchmarkError
from online.io.cache import cache_folder

Int8s = NDArray[np.int8]
Floats = NDArray[np.float32]
Progress = Callable[[Sequence[Any], str], Iterable[Any]]
PeerResult = tuple[list[bool], NDArray[np.int64]]
RIDGE, UCB_ALPHA, EPSILON = 1.0, 0.3, 0.05


def units(features: Int8s) -> Floats:
    rows = features.astype(np.float32)
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


class Arms:
    """A ridge regression of the reward for each reply (Li et al. 2010, disjoint), shrunk toward the reply's name.

    Before any thumb the expected reward is therefore the similarity. Inverses are updated with the
    Sherman-Morrison formula.
    """

    def __init__(self, described: Int8s) -> None:
        self.theta_RD = units(described)
        self.inverse_RDD = np.repeat(np.eye(described.shape[1], dtype=np.float32)[None] / RIDGE, len(described), 0)

    def scores(self, x_D: Floats, alpha: float = 0.0) -> Floats:
        expected: Floats = self.theta_RD @ x_D
        if alpha:
            spread = np.einsum("rd,d->r", self.inverse_RDD @ x_D, x_D)
            expected += alpha * np.sqrt(np.maximum(spread, 0))
        return expected

    def play(self, x_D: Floats, arm: int, truth: int) -> bool:
        """Give a reply and learn its reward, 1 or 0; return whether it was right."""
        gain = self.inverse_RDD[arm] @ x_D
        gain /= 1 + x_D @ gain
        self.inverse_RDD[arm] -= np.outer(gain, self.inverse_RDD[arm] @ x_D)
        self.theta_RD[arm] += gain * (float(arm == truth) - self.theta_RD[arm] @ x_D)
        return arm == truth


def lin_ucb(
    described: Int8s, questions: Int8s, right: NDArray[np.int64], test: Int8s, progress: Progress
) -> PeerResult:
    arms, hits = Arms(described), list[bool]()
    for x_D, truth in zip(progress(list(units(questions)), "LinUCB"), right.tolist(), strict=True):
        hits.append(arms.play(x_D, int(arms.scores(x_D, UCB_ALPHA).argmax()), truth))
    return hits, (units(test) @ arms.theta_RD.T).argmax(1)


def epsilon_greedy(
    described: Int8s, questions: Int8s, right: NDArray[np.int64], test: Int8s, progress: Progress
) -> PeerResult:
    arms, hits, draw = Arms(described), list[bool](), np.random.default_rng(0)
    for x_D, truth in zip(progress(list(units(questions)), "epsilon-greedy"), right.tolist(), strict=True):
        explored = draw.random() < EPSILON
        arm = int(draw.integers(len(described))) if explored else int(arms.scores(x_D).argmax())
        hits.append(arms.play(x_D, arm, truth))
    return hits, (units(test) @ arms.theta_RD.T).argmax(1)


VW_LOOP = r"""
import sys
import numpy as np
from vowpalwabbit import Workspace

folder, crossed = sys.argv[1], sys.argv[2:]
described, questions, right, test = (np.load(f"{folder}/{name}.npy") for name in ("names", "questions", "right", "test"))
vw = Workspace("--cb_explore_adf --squarecb --gamma_scale 1000 --cb_type mtr --quiet --random_seed 1 -b 22 " + " ".join(crossed))
draw = np.random.default_rng(0)
actions = len(described)


def lines(x, label=None):
    shared = "shared |q " + (" ".join(f"{i}:{v:.4f}" for i, v in enumerate(x)) if crossed else "asked")
    similar = described @ x
    rows = [f"|s sim:{similar[a]:.4f} |a {a}" for a in range(actions)]
    if label is not None:
        arm, cost, chance = label
        rows[arm] = f"0:{cost}:{chance:.6f} " + rows[arm]
    return [shared, *rows]


for x, truth in zip(questions, right):
    chances = np.array(vw.predict(lines(x)))
    arm = int(draw.choice(actions, p=chances / chances.sum()))
    vw.learn(lines(x, (arm, -float(arm == truth), chances[arm])))
    print(int(arm == truth), flush=True)
for x in test:
    print(int(np.argmax(vw.predict(lines(x)))), flush=True)
"""


def vowpal_wabbit(
    described: Int8s, questions: Int8s, right: NDArray[np.int64], test: Int8s, progress: Progress, crossed: str = ""
) -> PeerResult:
    """Run Vowpal Wabbit. crossed: "-qqa" crosses the question's features with each reply, in addition to the similarity."""
    python = Path(os.environ.get("ONLINE_VW_PYTHON", cache_folder() / "peers" / "vw" / "bin" / "python"))
    if not python.exists():
        raise BenchmarkError(
            f"{python} does not exist; create a virtual environment with vowpalwabbit there, or leave out `peers`"
        )
    folder = cache_folder() / "benchmarks" / "vw"
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("names", described), ("questions", questions), ("test", test)):
        np.save(folder / f"{name}.npy", units(rows))
    np.save(folder / "right.npy", right)
    arguments = [str(python), "-c", VW_LOOP, str(folder), *crossed.split()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=sys.stderr, text=True) as worker:
        assert worker.stdout is not None
        hits = [worker.stdout.readline() == "1\n" for _ in progress(range(len(questions)), "Vowpal Wabbit")]
        answers = [line.strip() for line in worker.stdout]
    if worker.returncode or len(answers) != len(test):
        raise BenchmarkError(f"Vowpal Wabbit ended with status {worker.returncode}")
    return hits, np.array(answers, np.int64)


PEERS: dict[str, Callable[[Int8s, Int8s, NDArray[np.int64], Int8s, Progress], PeerResult]] = {
    "LinUCB": lin_ucb,
    "epsilon-greedy": epsilon_greedy,
    "VW --cb_explore_adf --squarecb": vowpal_wabbit,
    "VW, question x reply crossed": partial(vowpal_wabbit, crossed="-qqa"),
}
