"""Rows, vectors or texts -> a label, by exact statistics and linear discriminant analysis.

bytes -> features int8 [B, D] -> sums (learn) -> solved weights (publish) -> scores (predict)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Answer, BadExample, Candidate, Example, Options, Part, State, inputs, packed, take, unpacked
from online.models.exact import ExactStatistics, LinearWeights, solve_slda

OPTIONS: dict[str, Any] = {
    **inputs.OPTIONS,
    "shrinkage": 0.0,  # of the covariance, in examples per feature; 0: 2.5 for texts, 0.5 otherwise
    "priors": True,  # frequent labels are preferred
    "max_labels": 1_000,
}


class Classifier:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.device = device
        self.inputs = inputs.Inputs(self.options)
        self.statistics = ExactStatistics(self.inputs.width, device)
        self._weights: LinearWeights | None = None

    @property
    def subtracts(self) -> bool:
        return self.inputs.subtracts

    def feature_epoch(self) -> str:
        return self.inputs.epoch()

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        weights = self._solved()
        if not weights.active.any():
            return [Answer(None, ()) for _ in inputs]
        x_BD = self.inputs.features(inputs).astype(np.float32)
        known = weights.matrix.shape[0]
        scores_BC = x_BD[:, :known] @ weights.matrix + weights.bias
        scores_BC[:, ~weights.active] = -np.inf
        return [self._answer(scores_C) for scores_C in scores_BC]

    def _answer(self, scores_C: NDArray[np.float32]) -> Answer:
        odds_C = np.exp(scores_C - scores_C.max())
        chances = (odds_C / odds_C.sum()).tolist()
        order = sorted(np.flatnonzero(self._solved().active), key=lambda c: -chances[c])
        candidates = tuple(Candidate(self.statistics.labels[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _solved(self) -> LinearWeights:
        if self._weights is None:
            if self.inputs.warm is not None:
                self._count_anew(self.inputs.fitted())
            shrinkage = self.options["shrinkage"] or (2.5 if self.inputs.kind == "text" else 0.5)
            self._weights = solve_slda(self.statistics, shrinkage, self.options["priors"])
        return self._weights

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self._check_all(examples)
        self._weights = None
        warming = self.inputs.warm is not None
        fixed = self.inputs.take(examples)
        if warming:
            self._count_anew(fixed)
        else:
            self._count(fixed, times=1)

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._weights = None
        self._count(self.inputs.drop(examples), times=-1)

    def _count_anew(self, examples: Sequence[Example]) -> None:
        self.statistics = ExactStatistics(self.inputs.width, self.device)
        self._count(examples, times=1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        self.statistics.widen(self.inputs.width)
        for example in examples:  # in this order, wherever a batch was cut
            self.statistics.add_label(example.label)
        for negative in (False, True):
            chosen = [example for example in examples if (example.reward < 0.5) == negative]
            if chosen:
                classes = [self.statistics.add_label(example.label) for example in chosen]
                x_BD = self.inputs.features([example.features for example in chosen])
                self.statistics.add(x_BD, classes, negative, times)

    def _check_all(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self._check(example)
        warm = self.inputs.warm
        known = self.statistics.labels if warm is None else [example.label for example in warm]
        labels = {*known, *(example.label for example in examples)}
        if len(labels) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} labels (option max_labels)")

    def _check(self, example: Example) -> None:
        if example.kind not in ("label", "reward"):
            raise BadExample(f"a classifier learns labels and rewards, not a {example.kind}")
        if not example.label:
            raise BadExample("there is no label to learn: the answer it refers to had none")
        self.inputs.check(example.features)

    # state

    def fingerprint(self) -> str:
        return self.inputs.fingerprint(self.statistics.digest)

    def drifted(self, label: str | None, since: int) -> None:
        """It has no windows to shorten."""

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.inputs.recent]

    def state(self, serving_only: bool = False) -> State:
        weights = self._solved()
        meta = packed({"labels": self.statistics.labels, **self.inputs.mapping()})
        solved = {"matrix": weights.matrix, "bias": weights.bias, "active": weights.active, "meta": meta}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            memory = packed(self.inputs.memory())
            parts["statistics"] = Part({**self.statistics.tensors(), "memory": memory}, serving=False)
        return parts

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpacked(solved["meta"])
        self._weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"])
        self.statistics.labels = meta["labels"]
        tensors = state["statistics"].tensors if "statistics" in state else None
        if tensors is not None:
            self.statistics = ExactStatistics.restored(meta["labels"], tensors, self.device)
        self.inputs.restore(meta, None if tensors is None else unpacked(tensors["memory"]))
