"""Logistic regression whose weights may drift: old examples count less, and nothing needs tuning.

    input = "vector" | "table"
    bytes -> x [D] = 1, waves, columns -> chances [C] = softmax(W x)

The weights of a class have a normal belief with mean W_c and covariance P_c, updated by an extended
Kalman filter. It is second order, so one pass achieves what gradient descent needs many for. Between
two examples each weight moves toward its prior by the share `drift`, and its variance with it (an
Ornstein-Uhlenbeck process), so P never exceeds the prior. Classes are treated as independent in P
(Bohning 1992 bounds the error).

Examples are learned one by one, in order, so micro-batches cannot matter. The columns' scales are
fitted to the first 1, 2, 4, ... 256 examples, which are learned again each time; after that, numbers that leave
them get further ones (`encoders.ranges`).

Shapes: C classes, D numbers in x, N columns, K waves.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.models.contract import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    pack_json,
    unpack_json,
)
from online.models.encoders.columns import Column, Columns
from online.models.encoders.ranges import RangeWatch
from online.models.encoders.values import parse_row
from online.models.example_checks import check
from online.models.options import SIZE, Option, require_size, resolve
from online.models.statistics.adaptation import find_translation
from online.schemas.events import is_positive
from online.schemas.json_values import JSONObject

WARM_UP = 256  # examples to which the scales are fitted; a power of two
PROBES = 8
UNIT = 64  # quanta of an int8 column per unit: most numbers then lie within -1 and 1
LEAST_DOUBT = 1e-4  # lower bound of p (1 - p), so that a certain but wrong answer still moves the weights
AMPLITUDE = 4.0  # of all waves together
LEAD, LEAD_KEPT = (
    4.0,
    0.98,
)  # right answers more than before with which translated weights win; share that an example keeps
LONGEST_PER_CLASS = 20  # examples after which a translation that does not win is given up
RELAXED = 0.5  # share of the way to the prior that the variances go on drift

OPTIONS = (
    Option("input", "", "What an instance is. Required: a list of numbers or an object.", choices=("vector", "table")),
    SIZE,
    Option(
        "drift",
        1e-6,
        "Share of its way back to the prior that a weight goes between two examples. Raise it when the world changes.",
        low=0.0,
        below=1.0,
    ),
    Option(
        "prior", 1.0, "Variance of a weight before any example. Raise it when strong weights are expected.", above=0.0
    ),
    Option(
        "waves",
        0,
        "Random Fourier features added to the columns. Set some when a line does not separate the classes.",
        low=0,
    ),
    Option(
        "frequency",
        0.3,
        "Standard deviation of the waves' frequencies. Raise it for finer boundaries.",
        unit="radians per unit",
    ),
    Option("max_labels", 100, "Most classes; memory and time grow with classes x columns^2.", unit="classes"),
    Option("max_features", 128, "Columns of a table; names past this number share a few.", unit="columns"),
)

Floats = NDArray[np.float64]


@dataclass(slots=True)
class RenamingTest:
    """Tests, after an alarm of drift, whether classes only changed their names: then the weights are given to others.

    mean: the weights [C, D] when the alarm came. rows: [label of the class that they took an example for, its label]
    of each example since. lead: right answers of `mean` under the names that most examples have, more than those given.
    won: whether it led by enough. given: [class, the class that got its weights].
    """

    mean: Floats
    rows: list[list[str]] = field(default_factory=list)
    lead: float = 0.0
    won: bool = False
    given: list[list[int]] = field(default_factory=list)

    def memory(self) -> JSONObject:
        """Return all but the weights, as JSON."""
        return {"rows": self.rows, "lead": self.lead, "won": self.won, "given": self.given}

    def find(self, labels: Sequence[str]) -> NDArray[np.intp]:
        """[C] the index of the class that each class is now."""
        place = {label: index for index, label in enumerate(labels)}
        taken, given = (np.array([place[row[side]] for row in self.rows], np.intp) for side in (0, 1))
        return find_translation(taken, given, len(labels))


class Logistic:
    """A logistic regression with drifting weights. Implements `contract.Model`."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve({"input": "", **options}, OPTIONS)  # the default "" is no allowed choice
        require_size(self.options)
        self.input: str = self.options["input"]
        self.warm: list[Example] | None = []
        self.recent: list[bytes] = []
        self.count = 0
        self.translation: RenamingTest | None = None
        self._reset()

    def _reset(self) -> None:
        """Reset columns, classes and belief to their state before the first example."""
        self._set_columns(self._columns())
        self.watch = RangeWatch()
        self.labels: list[str] = []  # append-only
        width = 1 + self.options["waves"]
        self.mean = np.zeros((0, width))  # [C, D]
        self.covariance = np.zeros((0, width, width))  # [C, D, D]

    def _columns(self, columns: Sequence[Column] = ()) -> Columns:
        return Columns(False, self.options["max_features"], columns)

    def _set_columns(self, columns: Columns) -> None:
        """Use these columns, and waves whose frequencies depend on each column's name alone."""
        count = self.options["waves"]
        names = [column.name + part for column in columns.columns for part in column.parts(columns.bumps)]
        frequencies = [self.options["frequency"] * draw_normal(name, count) for name in names]
        self.columns = columns
        self._known: tuple[bytes, Floats] | None = None
        self.frequencies_NK = np.array(frequencies).reshape(len(frequencies), count)
        self.phases_K = np.pi * draw_normal("", count)
        self.amplitude = AMPLITUDE / max(count, 1) ** 0.5

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        return [self._answer(data) for data in inputs]

    def _answer(self, data: bytes) -> Answer:
        if not self.labels:
            return Answer(None, ())
        chances = self._chances(self._features(data)).tolist()
        order = sorted(range(len(chances)), key=lambda c: -chances[c])
        candidates = tuple(Candidate(self.labels[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _features(self, data: bytes) -> Floats:
        """x [D] of an input, cached: what is learned was usually answered just before."""
        if self._known is None or self._known[0] != data:
            self._known = data, self._compute_features(data)
        return self._known[1]

    def _compute_features(self, data: bytes) -> Floats:
        if self.input == "vector":
            columns = self.columns.vectors(np.frombuffer(data, np.float64)[None])[0]
        else:
            columns = self.columns.features([parse_row(data)])[0]
        waves = self.options["waves"]
        x_D = np.ones(1 + waves + len(columns))
        x_N = np.divide(columns, UNIT, out=x_D[1 + waves :])
        if waves:
            x_D[1 : 1 + waves] = self.amplitude * np.cos(x_N @ self.frequencies_NK + self.phases_K)
        return x_D

    def _chances(self, x_D: Floats) -> Floats:
        scores_C = self.mean @ x_D
        odds_C = np.exp(scores_C - scores_C.max())
        chances_C: Floats = odds_C / odds_C.sum()
        return chances_C

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        for example in examples:
            self.count += 1
            if self.warm is None:
                self._update_watched(example)
            else:
                self._warm_up(self.warm, example)
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _warm_up(self, warm: list[Example], example: Example) -> None:
        warm.append(example)
        if self.count & (self.count - 1):
            self._update(example)
            return
        self._reset()
        self._admit(warm)
        for earlier in warm:
            self._update(earlier)
        if self.count == WARM_UP:
            self.warm = None

    def _admit(self, examples: Sequence[Example]) -> None:
        """Append columns for new names in the examples, with a belief about each."""
        if self.input == "vector":
            self.columns.admit_vectors(np.stack([np.frombuffer(e.features, np.float64) for e in examples]), None)
        else:
            self.columns.admit([parse_row(example.features) for example in examples], None)
        self._believe_columns()

    def _believe_columns(self) -> None:
        """Have a belief about each column."""
        if self.columns.width > len(self.frequencies_NK):
            self._set_columns(self.columns)
            self._widen(len(self.labels), 1 + self.options["waves"] + self.columns.width)

    def _update_watched(self, example: Example) -> None:
        """Learn an example, and append the bands that its numbers need."""
        if self.input == "table":
            self._admit([example])
            numbers_1N = self.columns.read_numbers([parse_row(example.features)])
        else:
            numbers_1N = np.frombuffer(example.features, np.float64)[None]
        count, bands = self.watch.observe(self.columns, [example.offset], numbers_1N)
        if not count:  # a band was due before it
            self._append(bands)
            _, bands = self.watch.observe(self.columns, [example.offset], numbers_1N)
        self._update(example)
        self._append(bands)

    def _append(self, bands: Sequence[Column]) -> None:
        self.columns.extend(bands)
        self._believe_columns()

    def _update(self, example: Example) -> None:
        if self.input == "table":
            self._admit([example])
        if example.label not in self.labels:
            self.labels.append(example.label)
            self._widen(len(self.labels), self.mean.shape[1])
        x_D, at = self._features(example.features), self.labels.index(example.label)
        self._drift()
        chances_C = self._chances(x_D)
        if self.translation is not None and is_positive(example.reward):
            chances_C = self._test_translation(self.translation, x_D, at, chances_C)
        if is_positive(example.reward):
            target_C = np.zeros(len(chances_C))
            target_C[at] = 1.0
            self._step(x_D, chances_C, target_C)
        else:  # a wrong class: its chance goes to the others
            others_C = np.where(np.arange(len(chances_C)) == at, 0, chances_C)
            self._step(x_D, chances_C, others_C / max(others_C.sum(), LEAST_DOUBT))

    def _test_translation(self, translation: RenamingTest, x_D: Floats, at: int, chances_C: Floats) -> Floats:
        """Score the translated weights on an example; return the chances, which are theirs from then on if they lead."""
        mean = translation.mean
        taken = int((mean @ x_D[: mean.shape[1]]).argmax())
        gain = int(translation.find(self.labels)[taken] == at) - int(chances_C.argmax() == at)
        translation.lead = LEAD_KEPT * translation.lead + gain
        translation.rows.append([self.labels[taken], self.labels[at]])
        if translation.won or translation.lead >= LEAD:
            translation.won = True
            self._give_weights(translation)
            chances_C = self._chances(x_D)
        if len(translation.rows) >= LONGEST_PER_CLASS * len(self.labels):
            self.translation = None
        return chances_C

    def _give_weights(self, translation: RenamingTest) -> None:
        """Give the weights of each class that has another name now to that, once."""
        for old, new in enumerate(translation.find(self.labels)[: len(translation.mean)].tolist()):
            if old != new and [old, new] not in translation.given:
                self.mean[new] = 0.0
                self.mean[new, : translation.mean.shape[1]] = translation.mean[old]
                translation.given.append([old, new])

    def _drift(self) -> None:
        kept = 1 - self.options["drift"]
        self.mean *= kept
        self._toward_prior(self.covariance, kept * kept)

    def _toward_prior(self, covariance_cDD: Floats, kept: float) -> None:
        covariance_cDD *= kept
        count, width, _ = covariance_cDD.shape
        diagonals = covariance_cDD.reshape(count, width * width)[:, :: width + 1]  # a view
        diagonals += (1 - kept) * self.options["prior"]

    def _step(self, x_D: Floats, chances_C: Floats, target_C: Floats) -> None:
        """Update the belief by the extended Kalman filter, for one Bernoulli observation per class."""
        doubt_C = np.maximum(chances_C * (1 - chances_C), LEAST_DOUBT)
        reach_CD = self.covariance @ x_D
        scale_C = 1 + doubt_C * (reach_CD @ x_D)
        self.mean += reach_CD * ((target_C - chances_C) / scale_C)[:, None]
        self.covariance -= (reach_CD * (doubt_C / scale_C)[:, None])[:, :, None] * reach_CD[:, None, :]

    def _widen(self, labels: int, width: int) -> None:
        """Make room for more classes and columns, whose belief is the prior."""
        known, old = self.mean.shape
        if (labels, width) == (known, old):
            return
        mean, covariance = np.zeros((labels, width)), np.tile(self.options["prior"] * np.eye(width), (labels, 1, 1))
        mean[:known, :old] = self.mean
        covariance[:known, :old, :old] = self.covariance
        self.mean, self.covariance = mean, covariance

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Raise NotImplementedError: weights that drift cannot subtract."""
        raise NotImplementedError("a logistic model cannot subtract; replay the log instead (subtracts is False)")

    def drifted(self, label: str | None, since: int) -> None:
        """Widen the belief, so that later examples count for more. The answers do not change.

        From now on examples decide whether classes only changed their names (`RenamingTest`).
        """
        at = [place for place, name in enumerate(self.labels) if label in (None, name)]
        relaxed = self.covariance[at]
        self._toward_prior(relaxed, 1 - RELAXED)
        self.covariance[at] = relaxed
        if self.warm is None and self.labels and self.translation is None:
            self.translation = RenamingTest(self.mean.copy())

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        for example in examples:
            check(example, "logistic model", self.input, self.options["size"])
        if len({*self.labels, *(example.label for example in examples)}) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} classes (option max_labels)")

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        seen = hashlib.sha256(repr((self.count, self.labels, self._describe_columns())).encode())
        seen.update(self.mean.tobytes())
        seen.update(self.covariance.tobytes())
        return seen.hexdigest()

    def _describe_columns(self) -> list[list[object]]:
        return [column.entry for column in self.columns.columns]

    def count_outside(self, inputs: Sequence[bytes]) -> int:
        """Return how many inputs hold a number beyond all its ranges; 0 while these are being fitted."""
        if self.warm is not None or not inputs:
            return 0
        if self.input == "vector":
            beyond_BN = self.columns.measure_vectors_beyond(
                np.stack([np.frombuffer(each, np.float64) for each in inputs])
            )
        else:
            beyond_BN = self.columns.measure_beyond([parse_row(each) for each in inputs])
        return 0 if beyond_BN is None else int((beyond_BN > 0).any(1).sum())

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return the newest inputs."""
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        meta = {"labels": self.labels, "columns": self._describe_columns()}
        parts = {"weights": StatePart({"mean": self.mean.copy(), "told": pack_json(meta)}, serving=True)}
        if not serving_only:
            kept = {} if self.translation is None else {"untranslated": self.translation.mean.copy()}
            tensors: Tensors = {"covariance": self.covariance.copy(), "memory": pack_json(self._memory()), **kept}
            parts["belief"] = StatePart(tensors, serving=False)
        return parts

    def _memory(self) -> dict[str, object]:
        warm = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm or ()]
        memory = {"count": self.count, "warm": warm, "recent": [features.hex() for features in self.recent]}
        if watched := self.watch.memory():
            memory["ranges"] = watched
        return memory if self.translation is None else memory | {"translation": self.translation.memory()}

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        weights = state["weights"].tensors
        meta = unpack_json(weights["told"])
        self.labels = meta["labels"]
        self._set_columns(self._columns([Column(*entry) for entry in meta["columns"]]))
        self.mean = weights["mean"].copy()
        if "belief" in state:
            tensors = state["belief"].tensors
            memory = unpack_json(tensors["memory"])
            self.covariance, self.count = tensors["covariance"].copy(), memory["count"]
            self.recent = [bytes.fromhex(features) for features in memory["recent"]]
            warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
            self.warm = warm if self.count < WARM_UP else None
            self.watch = RangeWatch()
            self.watch.restore(memory.get("ranges", {}))
            if "untranslated" in tensors:
                self.translation = RenamingTest(tensors["untranslated"].copy(), **memory["translation"])


def draw_normal(name: str, count: int) -> Floats:
    """Return standard normal numbers that depend on the name alone."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key)).normal(size=count)
