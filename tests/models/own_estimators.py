"""Factories of estimators, as an operator writes them in a module of their own."""

from typing import Any

from river import forest, linear_model, multiclass, naive_bayes, preprocessing, time_series
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPRegressor


def pipeline(**params: Any) -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression(**params)


def scaled_one_vs_rest() -> Any:
    """Each class has a scaler of its own, which divides by what it has seen: NaN for a feature that is new to the class."""
    scaled: Any = preprocessing.MinMaxScaler() | linear_model.LogisticRegression()
    return multiclass.OneVsRestClassifier(scaled)


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


def sgd() -> Any:
    return SGDClassifier(loss="modified_huber")


def mlp() -> Any:
    return MLPRegressor(hidden_layer_sizes=(16,), learning_rate_init=0.02)


READY_MADE = pipeline()
