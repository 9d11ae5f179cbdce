"""Regressors of scikit-learn that have `partial_fit`, under our contract.

    bytes -> RowReader -> row [1, D] -> partial_fit, one example at a time, in order -> number
    the absolute errors of the newest 256 predictions -> the interval

Targets are standardised by their mean and variance so far, because a step of stochastic gradient descent grows with
the size of the target.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from online.models.contract import LARGEST_NUMBER, Answer, BadExample, Example, Options, parse_number
from online.models.example_checks import check_features
from online.models.failures import EstimatorFailures
from online.models.options import KEY, Option
from online.plugins.libraries import sklearn_inputs
from online.plugins.libraries.recent_errors import RecentErrors
from online.plugins.libraries.river import PARAMS
from online.plugins.libraries.river_estimators import LARGEST
from online.plugins.libraries.river_regressor import LEVEL
from online.plugins.libraries.sklearn_estimators import Named, build_estimator, check_untrusted_name
from online.plugins.libraries.sklearn_inputs import RowReader
from online.plugins.libraries.wrapped import WrappedEstimator
from online.schemas.json_values import JSON, JSONObject

OPTIONS = (
    Option(
        "estimator",
        "sgd",
        "A short name (sgd, passive_aggressive), a place inside scikit-learn, such as linear_model.SGDRegressor, or "
        "package.module:factory of your own, which makes any regressor with partial_fit.",
    ),
    PARAMS,
    *sklearn_inputs.OPTIONS,
    LEVEL,
    KEY,
)
NAMED: Named = {
    "sgd": ("linear_model.SGDRegressor", {}),
    "passive_aggressive": (
        "linear_model.SGDRegressor",
        {"loss": "epsilon_insensitive", "learning_rate": "pa1", "eta0": 1.0},
    ),
}


def check_untrusted(options: Options) -> None:
    """Raise ValueError unless the estimator is one of NAMED with its usual parameters."""
    check_untrusted_name(options, "sgd", NAMED)


@dataclass(slots=True)
class TargetScale:
    """The mean and the variance of the targets so far. spread: the sum of squared differences from the mean."""

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def add(self, number: float) -> None:
        """Count a target for the running mean and variance."""
        self.count += 1
        before = number - self.mean
        self.mean += before / self.count
        self.spread += before * (number - self.mean)

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 while it is 0."""
        return math.sqrt(self.spread / self.count) or 1.0


class SklearnRegressor(WrappedEstimator):
    """A regressor of scikit-learn. Implements `contract.Model`."""

    learner = "scikit-learn regressor"

    def __init__(self, options: Options, device: str = "cpu") -> None:
        super().__init__(options, OPTIONS)
        self.reader, self.target = RowReader.of(self.options), TargetScale()
        self.errors = RecentErrors(self.options["level"])
        self.estimator: Any = build_estimator(
            self.options["estimator"], self.options["params"], NAMED, "regressor", "a regressor"
        )
        self._begin()

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return str(self.options["input"])

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        return [self._answer(data) for data in inputs]

    def _answer(self, data: bytes) -> Answer:
        value = self._number(data, self.failures) if self.target.count else None
        if value is None:
            return Answer(None, (), abstained=self.target.count > 0)
        return Answer(repr(value), (), interval=self.errors.interval(value))

    def _number(self, data: bytes, failures: EstimatorFailures | None = None) -> float | None:
        """Return what the estimator predicts; None if it is not a finite number. failures: where an error is counted."""
        failures = failures or EstimatorFailures()
        failures.tried += 1
        try:
            scaled = float(self.estimator.predict(self.reader.row(data))[0])
        except Exception as error:  # outside of what it accepts, or anything in the operator's code
            failures.note_answer(error)
            return None
        value = self.target.mean + self.target.deviation * scaled
        return float(f"{value:.10g}") if abs(value) <= LARGEST_NUMBER else None  # the last digits must not decide

    def _checked(self, example: Example) -> float:
        if example.kind != "label":
            raise BadExample(f"a scikit-learn regressor learns the right numbers, not a {example.kind}; send a label")
        try:
            number = parse_number(example.label)
        except ValueError as error:
            raise BadExample(str(error)) from None
        check_features(example.features, self.options["input"], self.options["size"])
        if abs(number) > LARGEST:
            raise BadExample(
                f"the label {number:g} is beyond {LARGEST:g}: the running variance would overflow for good"
            )
        return number

    def _learn_one(self, example: Example, row: float) -> None:
        if self.target.count and (value := self._number(example.features)) is not None:
            self.errors.add(row - value)
        self.reader.admit(example.features)
        self.target.add(row)
        scaled = (row - self.target.mean) / self.target.deviation
        self.estimator.partial_fit(self.reader.row(example.features), [scaled])

    def _content(self) -> object:
        return self.estimator, self.reader, self.target

    def _adopt(self, content: Any) -> None:
        self.estimator, self.reader, self.target = content

    def _facts(self) -> JSONObject:
        return {"errors": self.errors.errors}

    def _adopt_facts(self, facts: Mapping[str, JSON]) -> None:
        self.errors = RecentErrors(self.options["level"], facts["errors"])
