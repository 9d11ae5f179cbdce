"""Any river regressor or forecaster under our contract: it learns one number at a time, in order, from tables.

    regressor     row -> predict_one -> number
    forecaster    numbers learned so far, row as exogenous features -> forecast(horizon) -> the number `horizon` steps ahead

Both: the absolute errors of the newest 256 predictions -> the interval. A forecaster learns the numbers in the order of
the log, so "the next one" is the next to be learned: where labels arrive 10 rows late, `horizon = 11` predicts the row's
own number.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from online.models.contract import LARGEST_NUMBER, Answer, BadExample, Example, Options, parse_number
from online.models.failures import EstimatorFailures
from online.models.options import KEY, Option
from online.plugins.libraries.recent_errors import RecentErrors
from online.plugins.libraries.river import ONE_HOT, PARAMS, SCALE
from online.plugins.libraries.river_estimators import (
    LARGEST,
    NEAREST,
    EstimatorSpec,
    build_estimator,
    build_own_estimator,
    is_own,
    last_step,
    read_river_row,
    to_river_row,
)
from online.plugins.libraries.wrapped import WrappedEstimator, check_untrusted_estimator
from online.schemas.json_values import JSON, JSONObject

LEVEL = Option(
    "level",
    0.9,
    "How often the right number should lie within the interval. Raise it for wider, safer intervals.",
    unit="probability",
    above=0.0,
    below=1.0,
)
OPTIONS = (
    Option(
        "estimator",
        "linear",
        "A short name (linear, hat, arf, amrules, knn, holt_winters, snarimax), a place inside river, such as "
        "tree.HoeffdingTreeRegressor, or package.module:factory of your own, which makes any regressor, pipeline or "
        "forecaster of river.",
    ),
    PARAMS,
    SCALE,
    ONE_HOT,
    LEVEL,
    Option(
        "horizon", 1, "Of a forecaster: how many steps ahead the number of a row is.", unit="steps", low=1, high=1000
    ),
    KEY,
)
NAMED = {
    "linear": EstimatorSpec(
        "preprocessing.TargetStandardScaler", part=("regressor", EstimatorSpec("linear_model.LinearRegression"))
    ),
    "hat": EstimatorSpec("tree.HoeffdingAdaptiveTreeRegressor"),
    "arf": EstimatorSpec("forest.ARFRegressor"),
    "amrules": EstimatorSpec("rules.AMRules"),
    "knn": EstimatorSpec("neighbors.KNNRegressor", part=NEAREST),
    "holt_winters": EstimatorSpec("time_series.HoltWinters", {"alpha": 0.3}),
    "snarimax": EstimatorSpec("time_series.SNARIMAX", {"p": 12, "d": 0, "q": 0}),
}


def check_untrusted(options: Options) -> None:
    """Raise ValueError unless the estimator is one of NAMED and its parameters are plain values."""
    check_untrusted_estimator(options, "linear", [*NAMED])


class RiverRegressor(WrappedEstimator):
    """A regressor or forecaster of river. Implements `contract.Model`."""

    learner = "river regressor"

    def __init__(self, options: Options, device: str = "cpu") -> None:
        super().__init__(options, OPTIONS)
        self.estimator = build_regressor(self.options["estimator"], self.options["params"], self.options["scale"])
        self.forecasts = is_forecaster(last_step(self.estimator))
        self.copies = self.forecasts or is_own(self.options["estimator"])
        self.horizon: int = self.options["horizon"] if self.forecasts else 1
        self.count = 0
        self.pending: list[float | None] = []  # predictions of numbers that are not learned yet
        self.names: set[str] = set()  # features that it has learned from
        self.errors = RecentErrors(self.options["level"])
        self._begin()

    def feature_epoch(self) -> str:
        """Return the name of the inputs: tables."""
        return "table"

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        return [self._answer(to_river_row(data, self.options["one_hot"])) for data in inputs]

    def _answer(self, row: JSONObject) -> Answer:
        value = self._number(self.answering(), row, self.failures) if self.count else None
        if value is None:
            return Answer(None, (), abstained=self.count > 0)
        return Answer(repr(value), (), interval=self.errors.interval(value))

    def _number(self, estimator: Any, row: JSONObject, failures: EstimatorFailures | None = None) -> float | None:
        """Return what the estimator predicts; None if it cannot. failures: where that is counted."""
        known, failures = (
            {name: value for name, value in row.items() if name in self.names},
            failures or EstimatorFailures(),
        )
        failures.tried += 1
        try:
            if self.forecasts:
                value = float(estimator.forecast(self.horizon, [dict(known) for _ in range(self.horizon)])[-1])
            else:
                value = float(estimator.predict_one(known))
        except Exception as error:  # outside of what it accepts, or anything in the operator's code
            failures.note_answer(error)
            return None
        # the last digits depend on the order of sets, which differs between processes
        return float(f"{value:.10g}") if abs(value) <= LARGEST_NUMBER else None

    def _checked(self, example: Example) -> tuple[JSONObject, float]:
        if example.kind != "label":
            raise BadExample(f"a river regressor learns the right numbers, not a {example.kind}; send a label")
        try:
            number = parse_number(example.label)
        except ValueError as error:
            raise BadExample(str(error)) from None
        if abs(number) > LARGEST:
            raise BadExample(f"the label {number:g} is beyond {LARGEST:g}: a running variance would overflow for good")
        return read_river_row(example.features, self.options["one_hot"]), number

    def _learn_one(self, example: Example, row: tuple[JSONObject, float]) -> None:
        features, number = row
        self._note_error(features, number)
        if self.forecasts:
            self.estimator.learn_one(y=number, x=features)
        else:
            self.estimator.learn_one(features, number)
        self.count += 1
        self.names.update(features)

    def _note_error(self, features: JSONObject, number: float) -> None:
        """Note how far the number is from what was predicted for it: just now, or `horizon` examples ago.

        Every example is predicted once before it is learned, so what predicting may change in the estimator is a
        function of the log, too.
        """
        self.pending.append(self._number(self.estimator, features) if self.count else None)
        if len(self.pending) >= self.horizon:
            value = self.pending.pop(0)
            if value is not None:
                self.errors.add(number - value)

    def _content(self) -> object:
        return self.estimator

    def _adopt(self, content: object) -> None:
        self.estimator = content

    def _facts(self) -> JSONObject:
        return {"names": sorted(self.names), "count": self.count, "errors": self.errors.errors, "pending": self.pending}

    def _adopt_facts(self, facts: Mapping[str, JSON]) -> None:
        self.names, self.count = set(facts["names"]), facts["count"]
        self.errors, self.pending = RecentErrors(self.options["level"], facts["errors"]), [*facts["pending"]]


def is_forecaster(found: object) -> bool:
    """Return whether an estimator or its class forecasts a series."""
    from river.time_series.base import Forecaster

    return issubclass(found, Forecaster) if isinstance(found, type) else isinstance(found, Forecaster)


def build_regressor(name: str, params: Mapping[str, object], scale: bool) -> Any:
    """Build the regressor or forecaster `name`. Raises ValueError that says why it cannot be built."""
    from river import base, preprocessing

    def is_right(found: object) -> bool:
        is_regressor = (
            issubclass(found, base.Regressor) if isinstance(found, type) else isinstance(found, base.Regressor)
        )
        return is_regressor or is_forecaster(found)

    if is_own(name):
        return build_own_estimator(name, params, is_right, "a regressor or forecaster")
    estimator = build_estimator(name, params, NAMED, is_right, "a regressor or forecaster")
    return preprocessing.StandardScaler() | estimator if scale and not is_forecaster(estimator) else estimator
