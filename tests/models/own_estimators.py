"""Factories of estimators, as an operator writes them in a module of their own."""

from math import inf
from typing import Any

from river import base, forest, linear_model, multiclass, naive_bayes, preprocessing, time_series
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPRegressor


def pipeline(**params: Any) -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression(**params)


def scaled_one_vs_rest() -> Any:
    """Each class has a scaler of its own, which divides by what it has seen: NaN for a feature that is new to the class."""
    scaled: Any = preprocessing.MinMaxScaler() | linear_model.LogisticRegression()
    return multiclass.OneVsRestClassifier(scaled)


class Raises(base.Classifier, base.Regressor):
    """Raises where it answers or learns about an `x` from a bound on, and otherwise says what it learned last."""

    def __init__(self, answers_from: float = inf, learns_from: float = inf) -> None:
        self.answers_from, self.learns_from = answers_from, learns_from
        self.last: Any = None

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        self.check(x, self.learns_from)
        self.last = y

    def predict_one(self, x: Any, **kwargs: Any) -> Any:
        self.check(x, self.answers_from)
        return self.last

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        return {True: float(bool(self.predict_one(x)))}

    def check(self, x: Any, bound: float) -> None:
        if x["x"] >= bound:
            raise AttributeError("nobody has written this part")


def raises(**params: float) -> Any:
    return Raises(**params)


class RaisesAlways(SGDClassifier):  # type: ignore[misc]
    """Cannot answer."""

    def decision_function(self, X: Any) -> Any:
        raise AttributeError("nobody has written this part")


class NoNumber(linear_model.LogisticRegression):
    """Its chances are not numbers."""

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        return {"a": float("nan"), "b": float("nan")}


def text_pipeline() -> Any:
    """A pipeline that encodes texts itself."""
    encoded = preprocessing.OneHotEncoder(drop_zeros=True)
    return encoded | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())


def bayes() -> Any:
    return naive_bayes.GaussianNB()


def regressor() -> Any:
    return preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(linear_model.LinearRegression())


def forecaster(p: int = 1) -> Any:
    """A forecaster that reads the row, too."""
    return time_series.SNARIMAX(p=p, d=0, q=0, regressor=regressor())


def unseeded_forest() -> Any:
    return preprocessing.StandardScaler() | forest.ARFClassifier()


def with_lambda() -> Any:
    from river import compose

    return compose.FuncTransformer(lambda row: row) | linear_model.LogisticRegression()


def raises_always() -> Any:
    return RaisesAlways()


def sgd() -> Any:
    return SGDClassifier(loss="modified_huber")


def mlp() -> Any:
    return MLPRegressor(hidden_layer_sizes=(16,), learning_rate_init=0.02)


READY_MADE = pipeline()
