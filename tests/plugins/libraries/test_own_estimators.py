"""Estimators of the operator inside the kinds of river and scikit-learn: what is built, and what is refused with a reason."""

from typing import Any

import pytest

from online.models import BadExample, Example, create
from tests.models.synthetic import labels_only, row, tables

OWN = "tests.models.own_estimators"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("river", {"estimator": f"{OWN}:nothing"}, "has no attribute 'nothing'"),
        ("river", {"estimator": f"{OWN}:READY_MADE"}, "name a function or class that makes the estimator"),
        ("river", {"estimator": f"{OWN}:regressor"}, "is not a classifier of river"),
        ("river", {"estimator": f"{OWN}:unseeded_forest"}, "makes a ARFClassifier without a seed"),
        ("river", {"estimator": f"{OWN}:with_lambda"}, "cannot be pickled, so no snapshot could hold it"),
        ("river", {"estimator": f"{OWN}:pipeline", "params": {"depth": 3}}, "cannot make an estimator: TypeError"),
        ("river_regressor", {"estimator": f"{OWN}:pipeline"}, "is not a regressor or forecaster of river"),
        ("river_regressor", {"estimator": "forest.ARFClassifier"}, "is not a regressor or forecaster"),
        ("sklearn", {"estimator": f"{OWN}:mlp"}, "makes a MLPRegressor, which is not a classifier"),
        ("sklearn", {"estimator": "svm.SVC"}, "makes a SVC, which has no partial_fit"),
        ("sklearn", {"estimator": "nowhere.SVC"}, "there is no module 'sklearn.nowhere'"),
        ("sklearn", {"estimator": "datasets.load_iris"}, "sklearn.datasets.load_iris is not an estimator"),
        ("sklearn", {"estimator": "utils.fixes.np"}, "is not an estimator|has no attribute"),
        ("sklearn", {"classes": ["a"]}, "'classes' must list two classes or more"),
        ("sklearn_regressor", {"estimator": f"{OWN}:sgd"}, "makes a SGDClassifier, which is not a regressor"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(kind, options)


def test_a_pipeline_that_reads_texts_itself_gets_them() -> None:
    colours = {"red": "stop", "green": "go", "amber": "wait"}
    log = [
        Example(n, "label", row({"light": list(colours)[n % 3]}), colours[list(colours)[n % 3]]) for n in range(1, 91)
    ]
    model = create("river", {"estimator": f"{OWN}:text_pipeline", "one_hot": False})
    model.learn(log)
    answers = model.predict([row({"light": light}) for light in colours])
    assert [answer.choice for answer in answers] == list(colours.values())


def test_a_forecaster_follows_a_series_that_a_row_says_nothing_about() -> None:
    series = [float(n % 4) * 10 for n in range(400)]
    log = [Example(n + 1, "label", row({"x": 0.0}), repr(number)) for n, number in enumerate(series)]
    model = create("river_regressor", {"estimator": f"{OWN}:forecaster", "params": {"p": 4}})
    model.learn(log[:-1])
    answer = model.predict([log[-1].features])[0]
    assert answer.choice is not None and abs(float(answer.choice) - series[-1]) < 1.0
    assert answer.interval is not None and answer.interval[0] <= series[-1] <= answer.interval[1]


def test_a_declared_class_set_refuses_others_and_an_undeclared_one_is_rebuilt() -> None:
    log = labels_only(tables(200, 1, range(3)))
    names = sorted({example.label for example in log if example.label})
    declared = create("sklearn", {"input": "table", "classes": names[:2]})
    with pytest.raises(BadExample, match="is not one of `classes`"):
        declared.learn([next(each for each in log if each.label == names[2])])
    grown = create("sklearn", {"input": "table"})
    grown.learn(log)
    assert {candidate.id for candidate in grown.predict([log[0].features])[0].candidates} == set(names)
