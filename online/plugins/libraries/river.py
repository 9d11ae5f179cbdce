"""Any river classifier under our contract: it learns one example at a time, in order, from tables.

bytes -> row of numbers -> estimator by name, by its place in river, or by a factory of the operator -> classes
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from online.models.contract import Answer, BadExample, Candidate, Example, Options
from online.models.options import KEY, Option
from online.plugins.libraries.river_estimators import (
    NEAREST,
    EstimatorSpec,
    build_estimator,
    build_own_estimator,
    is_own,
    read_river_row,
    to_river_row,
)
from online.plugins.libraries.wrapped import WrappedEstimator, check_untrusted_estimator
from online.schemas.events import is_positive
from online.schemas.json_values import JSON, JSONObject

PARAMS = Option("params", {}, "Keyword arguments of the estimator or of the factory.")
SCALE = Option(
    "scale",
    True,
    "Put river's StandardScaler in front of it. Turn it off for trees and counts. A factory's own is left as it is.",
)
ONE_HOT = Option(
    "one_hot",
    True,
    "A category reaches the estimator as `name=value`: 1. Turn it off for a pipeline that reads texts itself.",
)
OPTIONS = (
    Option(
        "estimator",
        "softmax",
        "A short name (logistic, softmax, ftrl, hat, arf, srp, knn), a place inside river, such as naive_bayes.GaussianNB, "
        "or package.module:factory of your own, which makes any classifier or pipeline of river.",
    ),
    PARAMS,
    SCALE,
    ONE_HOT,
    KEY,
)
NAMED = {
    "logistic": EstimatorSpec("linear_model.LogisticRegression"),
    "softmax": EstimatorSpec("linear_model.SoftmaxRegression"),
    "ftrl": EstimatorSpec(
        "linear_model.LogisticRegression", part=("optimizer", EstimatorSpec("optim.FTRLProximal", {"alpha": 0.1}))
    ),
    "hat": EstimatorSpec("tree.HoeffdingAdaptiveTreeClassifier", {"grace_period": 50, "delta": 0.01}),
    "arf": EstimatorSpec("forest.ARFClassifier"),
    "srp": EstimatorSpec("ensemble.SRPClassifier"),
    "knn": EstimatorSpec("neighbors.KNNClassifier", part=NEAREST),
}


def check_untrusted(options: Options) -> None:
    """Raise ValueError unless the estimator is one of NAMED and its parameters are plain values."""
    check_untrusted_estimator(options, "softmax", [*NAMED])


class River(WrappedEstimator):
    """A river classifier. Implements `contract.Model`.

    Drift detection inside an estimator, such as the ADWIN of `hat`, `arf` and `srp`, is river's own.
    """

    learner = "river model"

    def __init__(self, options: Options, device: str = "cpu") -> None:
        super().__init__(options, OPTIONS)
        self.copies = is_own(self.options["estimator"])
        self.estimator = build_classifier(self.options["estimator"], self.options["params"], self.options["scale"])
        self.labels: set[str] = set()
        self.names: set[str] = set()  # features that it has learned from
        self._begin()

    def feature_epoch(self) -> str:
        """Return the name of the inputs: tables."""
        return "table"

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        return [self._answer(to_river_row(data, self.options["one_hot"])) for data in inputs]

    def _answer(self, row: JSONObject) -> Answer:
        known = {
            name: value for name, value in row.items() if name in self.names
        }  # river would add unknown ones to its state
        if not self.labels:
            return Answer(None, ())
        self.failures.tried += 1
        try:
            chances = predict_chances(self.answering(), known)
        except Exception as error:  # outside of what it accepts, or anything in the operator's code: abstain here alone
            self.failures.note_answer(error)
            return Answer(None, (), abstained=True)
        if not all(math.isfinite(chance) for chance in chances.values()):  # such as of a scaler that divided by zero
            return Answer(None, (), abstained=True)
        # river sums over sets, whose order differs between processes: the last digits must not decide
        rounded = ((str(label), round(float(p), 12)) for label, p in chances.items())
        ranked = sorted(rounded, key=lambda pair: (-pair[1], pair[0]))
        if not ranked:
            return Answer(None, ())
        return Answer(ranked[0][0], tuple(Candidate(label, p) for label, p in ranked), ranked[0][1])

    def _checked(self, example: Example) -> JSONObject:
        if example.kind != "label" and not (example.kind == "reward" and is_positive(example.reward)):
            raise BadExample(
                "a river classifier learns labels and rewards of at least 0.5; it cannot learn from wrong answers"
            )
        if not example.label:
            raise BadExample("there is no class to learn: the prediction it refers to had none")
        return read_river_row(example.features, self.options["one_hot"])

    def _learn_one(self, example: Example, row: JSONObject) -> None:
        self.estimator.learn_one(row, example.label)
        self.labels.add(example.label)
        self.names.update(row)

    def _content(self) -> object:
        return self.estimator

    def _adopt(self, content: object) -> None:
        self.estimator = content

    def _facts(self) -> JSONObject:
        return {"labels": sorted(self.labels), "names": sorted(self.names)}

    def _adopt_facts(self, facts: Mapping[str, JSON]) -> None:
        self.labels, self.names = set(facts["labels"]), set(facts["names"])


def predict_chances(estimator: Any, row: JSONObject) -> Mapping[object, float]:
    """Return the probability of each class; 1 for the predicted one if the estimator computes no probabilities."""
    try:
        found: Mapping[Any, float] = estimator.predict_proba_one(row)
    except NotImplementedError:
        choice = estimator.predict_one(row)
        return {} if choice is None else {choice: 1.0}
    return found


def build_classifier(name: str, params: Mapping[str, object], scale: bool) -> Any:
    """Build the river classifier `name`, e.g. "arf", "forest.ARFClassifier" or "shop_models:make_pipeline".

    Raises ValueError that says why it cannot be built.
    """
    from river import base, multiclass, preprocessing

    def is_classifier(found: object) -> bool:
        return issubclass(found, base.Classifier) if isinstance(found, type) else isinstance(found, base.Classifier)

    if is_own(name):
        estimator, scale = build_own_estimator(name, params, is_classifier, "a classifier"), False
    else:
        estimator = build_estimator(name, params, NAMED, is_classifier, "a classifier")
    if not estimator._multiclass:  # binary: use one per class
        estimator = multiclass.OneVsRestClassifier(estimator)
    return preprocessing.StandardScaler() | estimator if scale else estimator
