"""Logistic regression whose weights are believed to wander: what was learned long ago counts less, nothing is tuned.

    input = "vector" | "table"
    bytes -> x [D] = 1, waves, columns -> chances [C] = softmax(W x)

Each label's weights are a normal belief, mean W_c and covariance P_c, updated by an extended Kalman filter: second
order, so that one pass does what gradients need many for. Between two examples each weight moves toward its prior by
the share `drift`, and its variance with it (an Ornstein-Uhlenbeck process): P never exceeds the prior, whatever has
long not been seen. Labels are treated as independent in P (Bohning 1992 bounds what this leaves out).

Examples are learned one by one, in order, so micro-batches cannot matter. The columns' scales are fitted to the first
1, 2, 4, ... 256 examples, which are learned anew each time. Shapes: C labels, D
numbers in x, N columns, K waves.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Answer, BadExample, Candidate, Example, Options, Part, State, Tensors, packed, take, unpacked
from online.models.encoder import Column, Columns, parse_row
from online.models.rows import check

WARM_UP = 256  # examples that fit the scales; a power of two
PROBES = 8
UNIT = 64  # of the int8 columns: most numbers lie within -1 and 1
LEAST_DOUBT = 1e-4  # p (1 - p) is taken to be no less: a certain answer that is wrong must still be felt
AMPLITUDE = 4.0  # of all waves together
RELAXED = 0.5  # the share of the way to the prior that the variances go when the world has changed

OPTIONS: dict[str, Any] = {
    "input": "",  # vector or table
    "size": 0,  # numbers in a vector
    "drift": 1e-6,  # share of a weight's way to its prior between two examples
    "prior": 1.0,  # variance of a weight that nothing is known about
    "waves": 0,  # random Fourier features beside the columns: what a line cannot separate, they can
    "frequency": 0.3,  # of the waves: radians in one unit of a column (half of where 95 % of its numbers lie), one sigma
    "max_labels": 100,  # room and time grow with labels x columns^2
    "max_features": 128,  # columns of a table; names past it share a few
}

Floats = NDArray[np.float64]


class Logistic:
    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.input: str = self.options["input"]
        if self.input not in ("vector", "table"):
            raise ValueError(f"option 'input' must be vector or table, not {self.input!r}")
        if self.input == "vector" and self.options["size"] < 1:
            raise ValueError("a vector model needs option 'size': how many numbers an instance has")
        if self.options["waves"] < 0:
            raise ValueError("option 'waves' must not be negative")
        if not (0 <= self.options["drift"] < 1 and self.options["prior"] > 0):
            raise ValueError("option 'drift' must lie in [0, 1) and option 'prior' above 0")
        self.warm: list[Example] | None = []
        self.recent: list[bytes] = []
        self.count = 0
        self._forget()

    def _forget(self) -> None:
        """Columns, labels and belief as before the first example."""
        self._take_columns(self._columns())
        self.labels: list[str] = []  # append-only
        width = 1 + self.options["waves"]
        self.mean = np.zeros((0, width))  # [C, D]
        self.covariance = np.zeros((0, width, width))  # [C, D, D]

    def _columns(self, columns: Sequence[Column] = ()) -> Columns:
        return Columns(False, self.options["max_features"], columns)

    def _take_columns(self, columns: Columns) -> None:
        """These columns, and waves along them: each column's frequencies hang on its name alone."""
        count = self.options["waves"]
        frequencies = [self.options["frequency"] * drawn(column.name, count) for column in columns.columns]
        self.columns = columns
        self._waves_NK = np.array(frequencies).reshape(len(frequencies), count)
        self._phases_K = np.pi * drawn("", count)
        self._amplitude = AMPLITUDE / max(count, 1) ** 0.5

    def feature_epoch(self) -> str:
        return self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return [self._answer(data) for data in inputs]

    def _answer(self, data: bytes) -> Answer:
        if not self.labels:
            return Answer(None, ())
        chances = self._chances(self._features(data)).tolist()
        order = sorted(range(len(chances)), key=lambda c: -chances[c])
        candidates = tuple(Candidate(self.labels[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _features(self, data: bytes) -> Floats:
        if self.input == "vector":
            columns = self.columns.vectors(np.frombuffer(data, np.float64)[None])[0]
        else:
            columns = self.columns.features([parse_row(data)])[0]
        x_N = columns / UNIT
        return np.concatenate([[1.0], self._amplitude * np.cos(x_N @ self._waves_NK + self._phases_K), x_N])

    def _chances(self, x_D: Floats) -> Floats:
        scores_C = self.mean @ x_D
        odds_C = np.exp(scores_C - scores_C.max())
        chances_C: Floats = odds_C / odds_C.sum()
        return chances_C

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        for example in examples:
            self.count += 1
            if self.warm is None:
                self._take_in(example)
            else:
                self._warm_up(self.warm, example)
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _warm_up(self, warm: list[Example], example: Example) -> None:
        warm.append(example)
        if self.count & (self.count - 1):
            self._take_in(example)
            return
        self._forget()
        self._admit(warm)
        for earlier in warm:
            self._take_in(earlier)
        if self.count == WARM_UP:
            self.warm = None

    def _admit(self, examples: Sequence[Example]) -> None:
        """Columns for the names in them that are new; a belief about each new one."""
        if self.input == "vector":
            self.columns.admit_vectors(np.stack([np.frombuffer(e.features, np.float64) for e in examples]), None)
        else:
            self.columns.admit([parse_row(example.features) for example in examples], None)
        if self.columns.width > len(self._waves_NK):
            self._take_columns(self.columns)
            self._widen(len(self.labels), 1 + self.options["waves"] + self.columns.width)

    def _take_in(self, example: Example) -> None:
        if self.input == "table":
            self._admit([example])
        if example.label not in self.labels:
            self.labels.append(example.label)
            self._widen(len(self.labels), self.mean.shape[1])
        x_D, at = self._features(example.features), self.labels.index(example.label)
        self._wander()
        chances_C = self._chances(x_D)
        if example.reward >= 0.5:
            self._step(x_D, chances_C, np.eye(1, len(chances_C), at)[0])
        else:  # its chance goes to the others
            others_C = np.where(np.arange(len(chances_C)) == at, 0, chances_C)
            self._step(x_D, chances_C, others_C / max(others_C.sum(), LEAST_DOUBT))

    def _wander(self) -> None:
        kept = 1 - self.options["drift"]
        self.mean *= kept
        self._toward_prior(self.covariance, kept * kept)

    def _toward_prior(self, covariance_cDD: Floats, kept: float) -> None:
        covariance_cDD *= kept
        np.einsum("cdd->cd", covariance_cDD)[...] += (1 - kept) * self.options["prior"]

    def _step(self, x_D: Floats, chances_C: Floats, target_C: Floats) -> None:
        """The extended Kalman filter's update for one Bernoulli observation a label."""
        doubt_C = np.maximum(chances_C * (1 - chances_C), LEAST_DOUBT)
        reach_CD = self.covariance @ x_D
        scale_C = 1 + doubt_C * (reach_CD @ x_D)
        self.mean += reach_CD * ((target_C - chances_C) / scale_C)[:, None]
        self.covariance -= (reach_CD * (doubt_C / scale_C)[:, None])[:, :, None] * reach_CD[:, None, :]

    def _widen(self, labels: int, width: int) -> None:
        """Room for more labels and columns, each believed to be what the prior says."""
        known, old = self.mean.shape
        if (labels, width) == (known, old):
            return
        mean, covariance = np.zeros((labels, width)), np.tile(self.options["prior"] * np.eye(width), (labels, 1, 1))
        mean[:known, :old] = self.mean
        covariance[:known, :old, :old] = self.covariance
        self.mean, self.covariance = mean, covariance

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError("a logistic model cannot subtract: subtracts is False")

    def drifted(self, label: str | None, since: int) -> None:
        """Doubt what is known, so that what comes next counts for more; the answers stay as they are."""
        at = [place for place, name in enumerate(self.labels) if label in (None, name)]
        relaxed = self.covariance[at]
        self._toward_prior(relaxed, 1 - RELAXED)
        self.covariance[at] = relaxed

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            check(example, "logistic model", self.input, self.options["size"])
        if len({*self.labels, *(example.label for example in examples)}) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} labels (option max_labels)")

    # state

    def fingerprint(self) -> str:
        seen = hashlib.sha256(repr((self.count, self.labels, self._described())).encode())
        seen.update(self.mean.tobytes())
        seen.update(self.covariance.tobytes())
        return seen.hexdigest()

    def _described(self) -> list[list[Any]]:
        return [[c.name, c.number, c.exponent, c.centre] for c in self.columns.columns]

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        told = {"labels": self.labels, "columns": self._described()}
        parts = {"weights": Part({"mean": self.mean.copy(), "told": packed(told)}, serving=True)}
        if not serving_only:
            tensors: Tensors = {"covariance": self.covariance.copy(), "memory": packed(self._memory())}
            parts["belief"] = Part(tensors, serving=False)
        return parts

    def _memory(self) -> dict[str, Any]:
        warm = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm or ()]
        return {"count": self.count, "warm": warm, "recent": [features.hex() for features in self.recent]}

    def restore(self, state: State) -> None:
        weights = state["weights"].tensors
        told = unpacked(weights["told"])
        self.labels = told["labels"]
        self._take_columns(self._columns([Column(*entry) for entry in told["columns"]]))
        self.mean = weights["mean"].copy()
        if "belief" in state:
            tensors = state["belief"].tensors
            memory = unpacked(tensors["memory"])
            self.covariance, self.count = tensors["covariance"].copy(), memory["count"]
            self.recent = [bytes.fromhex(features) for features in memory["recent"]]
            warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
            self.warm = warm if self.count < WARM_UP else None


def drawn(name: str, count: int) -> Floats:
    """Standard normal numbers that depend on the name alone."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key)).normal(size=count)
