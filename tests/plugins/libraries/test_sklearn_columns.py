"""The free columns of a table, which scikit-learn's estimators read as zeros, and naive Bayes that learns row by row."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB

from online.models import BadExample, Example, Model, create
from online.plugins.libraries.sklearn_classifier import SklearnClassifier
from tests.models.synthetic import row
from tests.support import first_of

Rows = NDArray[np.float64]
COUNT, WARM = 1_200, 100


def draw_bells() -> tuple[Rows, NDArray[np.int64]]:
    """Six columns of very different sizes, three classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, COUNT)
    centres = np.array([[0, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0.5, 0], [0, 1, 2, 0, 0, 1]])
    rows = rng.normal(size=(COUNT, 6)) + centres[classes]
    return rows * [1, 10, 0.01, 1_000, 1, 5] + [0, 50, 3, 0, 1, 9], classes


def draw_counts() -> tuple[Rows, NDArray[np.int64]]:
    """Counts in six columns; the last class is rare, and the last column appears with it alone, later."""
    rng = np.random.default_rng(1)
    chances = [[0.5, 0.2, 0.15, 0.1, 0.05, 0], [0.1, 0.5, 0.25, 0.1, 0.05, 0], [0.05, 0.1, 0.1, 0.2, 0.2, 0.35]]
    classes = np.where(np.arange(COUNT) < 200, rng.integers(0, 2, COUNT), rng.choice(3, COUNT, p=[0.46, 0.46, 0.08]))
    return np.array([rng.multinomial(8, chances[place]) for place in classes], float), classes


def encode(values: Rows, names: str = "abcdef") -> bytes:
    return row({name: float(value) for name, value in zip(names, values, strict=True) if value})


def count_right(model: Model, rows: Rows, classes: NDArray[np.int64]) -> int:
    right = 0
    for place, (values, label) in enumerate(zip(rows, classes, strict=True)):
        features = encode(values)
        right += place >= WARM and model.predict([features])[0].choice == f"k{label}"
        model.learn([Example(place, "label", features, f"k{label}")])
    return right


def count_right_of(estimator: Any, rows: Rows, classes: NDArray[np.int64]) -> int:
    """Of scikit-learn alone, row by row, with all columns and classes from the start."""
    right = 0
    for place, (values, label) in enumerate(zip(rows, classes, strict=True)):
        right += place >= WARM and estimator.predict(values[None])[0] == label
        estimator.partial_fit(values[None], [label], classes=[0, 1, 2])
    return right


@pytest.mark.long
@pytest.mark.parametrize("options", first_of([{}, {"scale": False}, {"columns": 500}]), ids=str)
@pytest.mark.parametrize(
    "estimator", first_of([MultinomialNB, GaussianNB, ComplementNB]), ids=lambda each: each.__name__
)
def test_naive_bayes_of_a_table_answers_as_scikit_learn_alone(
    estimator: type[ClassifierMixin], options: dict[str, Any]
) -> None:
    rows, classes = draw_bells() if estimator is GaussianNB else draw_counts()
    name = f"naive_bayes.{estimator.__name__}"
    ours = count_right(create("sklearn", {"estimator": name, "input": "table", **options}), rows, classes)
    assert abs(ours - count_right_of(estimator(), rows, classes)) <= 0.01 * COUNT


@pytest.mark.long
def test_what_is_in_a_row_or_not_is_answered_as_by_scikit_learn_alone() -> None:
    rows, classes = draw_counts()
    model = create("sklearn", {"estimator": "naive_bayes.BernoulliNB", "input": "table", "scale": False})
    ours, alone = count_right(model, rows, classes), count_right_of(BernoulliNB(), rows, classes)
    assert abs(ours - alone) <= 0.01 * COUNT


def test_a_column_that_comes_later_joins_with_counts_of_zero() -> None:
    rows, classes = draw_counts()
    model = SklearnClassifier({"estimator": "naive_bayes.MultinomialNB", "input": "table"})
    count_right(model, rows, classes)
    alone = MultinomialNB()
    alone.partial_fit(rows, classes, classes=[0, 1, 2])
    counts = model.estimator.feature_count_[[model.classes.index(f"k{place}") for place in range(3)]]
    names = [model.reader.places[name] for name in "abcdef"]
    assert np.array_equal(counts[:, names], alone.feature_count_)


def test_a_name_that_no_example_had_changes_no_answer() -> None:
    model = create("sklearn", {"estimator": "sgd", "input": "table"})
    rows, classes = draw_bells()
    count_right(model, rows[:200], classes[:200])
    known: dict[str, float | str] = {"a": 1.0, "b": 60.0}
    plain = model.predict([row(known)])[0]
    assert all(model.predict([row({**known, f"new{n}": 1e6})])[0] == plain for n in range(64))


def test_a_row_that_cannot_be_counted_is_refused_also_while_one_class_is_known() -> None:
    """Otherwise it would be kept, and every later class would fail where the estimator is rebuilt."""
    model = create("sklearn", {"estimator": "naive_bayes.MultinomialNB", "input": "table"})
    model.learn([Example(1, "label", row({"a": 2.0}), "one")])
    with pytest.raises(BadExample, match="Negative values"):
        model.learn([Example(2, "label", row({"a": -2.0}), "one")])
    model.learn([Example(3, "label", row({"a": 1.0, "b": 3.0}), "two"), Example(4, "label", row({"c": 5.0}), "three")])
    assert [model.predict([row({name: 4.0})])[0].choice for name in "abc"] == ["one", "two", "three"]
