"""Rows, vectors or texts -> a label, by exact statistics and a head that is solved from them.

    bytes -> Inputs -> int8 [B, D] -> Head.features -> int8 [B, M] -> sums (learn) -> weights (publish) -> chances (predict)

head = "slda" | "ridge" | "rp_ridge" | "best", see `heads`. A label may be declared to mean "none of these" (`outside`):
it is never answered; it teaches how unlike everything an input looks that had better get no answer.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import (
    Answer,
    BadExample,
    Example,
    Options,
    Part,
    State,
    candidates_of,
    check_limits,
    inputs,
    packed,
    rows,
    take,
    unpacked,
)
from online.models.ages import Ages
from online.models.calibration import Holdout
from online.models.encoder import TEXT_WIDTH
from online.models.exact import ExactStatistics, LinearWeights
from online.models.heads import HEADS, Decided, Head, Solved
from online.models.projection import Projection
from online.models.windows import Windows

OUTSIDE_KEPT = 256  # examples of what belongs to no label
TEXT_OCTAVE = 10.35, 0.0  # of unit vectors times 512, chosen on CLINC150's validation questions; all of one bandwidth
TEXT_NAMES = [str(place) for place in range(TEXT_WIDTH)]
OTHER_OCTAVES = 2.0
UNKNOWN_COLUMNS = 8  # of a table with a declared scale, whose columns are still to come
LIMITS = {
    "abstain_below": (0.0, 1.0),
    "shrinkage": (0.0, 1e9),
    "max_labels": (1, 1_000_000),
    "seed": (0, 2**63),
    "random_features": (0, 16_384),
    "max_age": (0, 1e15),
}

OPTIONS: dict[str, Any] = {
    **inputs.OPTIONS,
    "head": "slda",  # slda, ridge, rp_ridge (ridge on random features) or best (held-out feedback chooses)
    "random_features": 1_024,  # of rp_ridge and best, beside the inputs themselves
    "seed": 0,  # of the random features
    "shrinkage": 0.5,  # of the covariance, in examples per feature
    "priors": True,  # frequent labels are preferred
    "abstain_below": 0.0,  # no answer where the chance that it is right, learned from feedback, is less
    "outside": "",  # a label that means "none of these": it is never answered, it teaches when to abstain
    "max_labels": 1_000,
    "window": 0,  # newest examples of a label that count; 0: all
    "max_age": 0,  # events after which an example is forgotten altogether; 0: never
    "drift_window": 0,  # newest examples of a label held so that drift can shorten what counts; 0: it cannot
}


class Classifier:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        check(self.options)
        self.device = device
        self.inputs = inputs.Inputs(self.options)
        self.head = self._new_head()
        self.windows = Windows(self.options["window"], self.options["drift_window"])
        self.ages = Ages(self.options["max_age"])
        self.held_out, self.outside = Holdout(), Holdout(OUTSIDE_KEPT)
        self.outside_digest = 0  # of everything outside, kept or not: the sum of hashes modulo 2^256
        self._solution: Solved | None = None

    @property
    def subtracts(self) -> bool:
        """Not once examples decide how others are seen, nor while what was let go may be needed again."""
        return self.inputs.subtracts and not self.windows.exhausted(self.statistics) and not self.ages.exhausted

    @property
    def statistics(self) -> ExactStatistics:
        return self.head.statistics

    def feature_epoch(self) -> str:
        return self.inputs.epoch()

    def _new_head(self, octave: float | None = None) -> Head:
        """octave: of the random features, as another head had it; None: by the columns there are now."""
        options = self.options
        random_features = options["random_features"] if options["head"] in ("rp_ridge", "best") else 0
        typical, octaves = TEXT_OCTAVE if self.inputs.kind == "text" else (self._octave(), OTHER_OCTAVES)
        projection = Projection(random_features, options["seed"], typical if octave is None else octave, octaves)
        head = Head(options["head"], projection, options["shrinkage"], options["priors"], self.device)
        head.name_columns(self._names())
        return head

    def _octave(self) -> float:
        """Of a typical distance: a number lies within 64 quanta of its median, differences add up in squares."""
        numbers = self.inputs.size or len(self.inputs.columns.columns) or UNKNOWN_COLUMNS
        return float(np.log2(32 * np.sqrt(2 * numbers)))

    def _names(self) -> list[str]:
        return TEXT_NAMES if self.inputs.kind == "text" else self.inputs.columns.names

    def _features(self, examples: Sequence[bytes]) -> NDArray[np.int8]:
        return self.head.features(self.inputs.features(examples))

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        solution = self._solved() if self._knows_anything else None
        if solution is None or not solution.weights.active.any():
            return [Answer(None, ()) for _ in inputs]
        judged = solution.judge(self._features(inputs))
        active = np.flatnonzero(solution.weights.active)
        order_BA = active[np.argsort(-judged.chances[:, active], axis=1, kind="stable")]
        chances_BA = np.take_along_axis(judged.chances, order_BA, axis=1)
        ranked = zip(order_BA.tolist(), chances_BA.tolist(), judged.confidence.tolist(), strict=True)
        return [self._answer(*each) for each in ranked]

    def _answer(self, order: list[int], chances: list[float], confidence: float) -> Answer:
        """order: places of the labels, the likeliest first."""
        labels = self.statistics.labels
        candidates = candidates_of([labels[place] for place in order], chances)
        if confidence < self.options["abstain_below"]:
            return Answer(None, candidates, candidates[0].score, abstained=True)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    @property
    def _knows_anything(self) -> bool:
        """Otherwise there is nothing to solve: a server that has no version yet answers without torch, too."""
        return self._solution is not None or bool(self.statistics.labels or self.inputs.warm)

    def _solved(self) -> Solved:
        if self._solution is None:
            if self.inputs.warm is not None:
                self._count_anew(self.inputs.fitted())
            self._solution = self.head.solve(self.windows.rested_on(self.statistics))
        return self._solution

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        self._solution = None
        due = list(examples)
        while due:
            now, due = self._up_to_decision(due)
            gone = self.ages.add(now)
            self._learn(now, gone)
            if self.inputs.warm is None and self.head.count >= self.head.decides_at:
                self._decide()

    def _up_to_decision(self, examples: list[Example]) -> tuple[list[Example], list[Example]]:
        """Cut where the warm-up ends, where a decision is due and where examples are let go.

        None of these may depend on how a log is cut in batches.
        """
        examples, later = examples[: (turn := self.ages.until_turn(examples))], examples[turn:]
        inside = [place for place, example in enumerate(examples) if not self._is_outside(example)]
        missing = inputs.WARM_UP - len(self.inputs.warm or ())
        if self.inputs.warm is None:
            inside = [place for place in inside if examples[place].reward >= 0.5]
            missing = max(1, self.head.decides_at - self.head.count)
        cut = len(examples) if len(inside) < missing else inside[missing - 1] + 1
        return examples[:cut], [*examples[cut:], *later]

    def _learn(self, examples: Sequence[Example], gone: Sequence[Example]) -> None:
        """gone: those, and earlier ones, that are too old to count from here on."""
        outside, inside = self._parted(examples)
        self.outside.add(outside)
        self._sum_digest(outside, 1)
        self.held_out.add(example for example in inside if example.reward >= 0.5)
        warming = self.inputs.warm is not None
        fixed = self.inputs.take(inside)
        if warming:
            self._count_anew(fixed)
        else:
            self._count(fixed, times=1)
            self._count(self._parted(gone)[1], times=-1)
        if gone:
            self._let_go(gone)

    def _let_go(self, gone: Sequence[Example]) -> None:
        """Everything but the sums: what was held out, and what belongs to no label, is chosen among the others."""
        outside, inside = self._parted(gone)
        self._sum_digest(outside, -1)
        self.head.let_go(sum(example.reward >= 0.5 for example in inside))
        self.held_out, self.outside = Holdout(), Holdout(OUTSIDE_KEPT)
        outside, inside = self._parted(self.ages.examples())
        self.outside.add(outside)
        self.held_out.add(example for example in inside if example.reward >= 0.5)

    def _decide(self) -> None:
        """Let held-out examples decide what the head leaves open."""
        held_out, strange = self.held_out.lowest(self.head.held_out_count), self.outside.examples()
        self.head.decide(
            self._features([example.features for example in held_out]),
            np.array([self.statistics.add_label(example.label) for example in held_out]),
            self._features([example.features for example in strange]),
        )

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._solution = None
        outside, inside = self._parted(self.ages.remove(examples))
        self.outside.remove(outside)
        self._sum_digest(outside, -1)
        self.held_out.remove(inside)
        self.inputs.drop(self._parted(examples)[1])
        if self.inputs.warm is None:
            self._count(inside, times=-1)

    def _parted(self, examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
        """Those that belong to no label, and the others."""
        outside = [example for example in examples if self._is_outside(example)]
        return outside, [example for example in examples if not self._is_outside(example)]

    def _is_outside(self, example: Example) -> bool:
        return bool(self.options["outside"]) and example.label == self.options["outside"] and example.reward >= 0.5

    def _sum_digest(self, outside: Sequence[Example], times: int) -> None:
        for example in outside:
            own = hashlib.sha256(example.offset.to_bytes(8, "little") + example.features).digest()
            self.outside_digest = (self.outside_digest + times * int.from_bytes(own, "little")) % 2**256

    def _count_anew(self, examples: Sequence[Example]) -> None:
        self.head, self.windows = self._new_head(), self.windows.emptied()
        self._count(examples, times=1)
        self._count(self.ages.too_old(examples), times=-1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        if not examples:
            return
        self.head.name_columns(self._names())
        for example in examples:  # in this order, wherever a batch was cut
            self.statistics.add_label(example.label)
        for negative in (False, True):
            chosen = [example for example in examples if (example.reward < 0.5) == negative]
            if chosen:
                classes = [self.statistics.add_label(example.label) for example in chosen]
                features = self._features([example.features for example in chosen])
                self.head.add(features, classes, negative, times)
                if not negative:
                    self.windows.add(features, [e.label for e in chosen], [e.offset for e in chosen], times)

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            rows.check(example, "classifier", self.inputs.kind, self.inputs.size)
        warm = self.inputs.warm
        known = self.statistics.labels if warm is None else [example.label for example in warm]
        labels = {*known, *(example.label for example in examples)}
        if len(labels) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} labels (option max_labels)")

    # state

    def fingerprint(self) -> str:
        told = self.inputs.fingerprint(self._digest)
        besides = [told, self.outside_digest, *self.ages.counts()]
        return hashlib.sha256(" ".join(map(str, besides)).encode()).hexdigest() if any(besides[1:]) else told

    def _digest(self, columns: Sequence[str] | None) -> bytes:
        before = [f"#{place}" for place in range(self.head.start)]  # the features in front of the inputs
        return self.statistics.digest(None if columns is None else [*before, *columns])

    def drifted(self, label: str | None, since: int) -> None:
        """Let the means rest on what came since: see `Windows.cut`."""
        if self.inputs.warm is not None:
            self._count_anew(self.inputs.fitted())
        self.windows.cut(label, since, self.statistics)
        self._solution = None

    def facts(self) -> Mapping[str, float]:
        decided = self.head.decided
        facts = {"temperature": decided.temperature, "held_out": len(self.held_out), "held_out_loss": decided.loss}
        return {**facts, "shortened_labels": self.windows.cuts()} if self.options["drift_window"] else facts

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.inputs.recent]

    def state(self, serving_only: bool = False) -> State:
        solution = self._solved()
        weights = solution.weights
        meta = {
            "labels": self.statistics.labels,
            "decided": asdict(solution.decided),
            "octave": self.head.projection.octave,
            **self.inputs.mapping(),
        }
        solved = {"matrix": weights.matrix, "bias": weights.bias, "active": weights.active, "meta": packed(meta)}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            told = {"outside_digest": self.outside_digest, "forgot": self.ages.forgot}
            memory = packed({**self.inputs.memory(), **told})
            parts["statistics"] = Part({**self.statistics.tensors(), "memory": memory}, serving=False)
            if self.windows.room:
                parts["windows"] = Part(self.windows.tensors(self.statistics.width), serving=False)
            parts |= self.ages.parts()
            parts["held_out"], parts["outside"] = self.held_out.part(), self.outside.part()
        return parts

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpacked(solved["meta"])
        memory = unpacked(state["statistics"].tensors["memory"]) if "statistics" in state else None
        self.inputs.restore(meta, memory)
        self.head = self._new_head(meta["octave"])
        self.head.decided = Decided.recalled(meta["decided"])
        weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"])
        self._solution = self.head.solved(weights)
        self.statistics.labels = meta["labels"]
        if memory is not None:
            sums = {name: tensor for name, tensor in state["statistics"].tensors.items() if name != "memory"}
            self.head.statistics = ExactStatistics.restored(meta["labels"], sums, self.device)
            self.outside_digest = memory["outside_digest"]
            self.ages.recall(state, memory.get("forgot", False))
            self.held_out.recall(state["held_out"])
            self.outside.recall(state["outside"])
            if "windows" in state:
                self.windows.restore(state["windows"].tensors)


def check(options: Mapping[str, Any]) -> None:
    """Raises ValueError that names the option and what it may be."""
    if options["head"] not in HEADS:
        raise ValueError(f"option 'head' must be one of {', '.join(HEADS)}, not {options['head']!r}")
    if options["head"] != "slda" and (options["window"] or options["drift_window"]):
        raise ValueError("windows are means' own: options 'window' and 'drift_window' need head 'slda'")
    check_limits(options, LIMITS)
