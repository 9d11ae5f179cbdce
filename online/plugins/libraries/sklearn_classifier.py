"""Classifiers of scikit-learn that have `partial_fit`, under our contract.

    bytes -> RowReader -> row [1, D] -> partial_fit, one example at a time, in order

`partial_fit` must know all classes at its first call. Those in the option `classes` are declared then. Where a class
is not declared, its first example rebuilds the estimator from the newest `buffer` examples, with all classes so far
in the order of their first examples: what was learned from older ones is lost at that moment. Both are functions of
the log alone.

Naive Bayes learns from rows that come one by one, and from columns that come later:

    GaussianNB                                  smooths by the variance of the rows of a call, and a call has one row: by that of all
                                                rows so far here
    BernoulliNB, ComplementNB, MultinomialNB    count something for every column, so they read those that are in use alone: a column
                                                that is new joins with counts of zero, as if it had been there from the start

So the columns that a table keeps free change none of their answers.

Shapes: D columns, C classes.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import example_checks
from online.models.contract import Answer, BadExample, Candidate, Example, Options
from online.models.options import KEY, Option
from online.plugins.libraries import sklearn_inputs
from online.plugins.libraries.river import PARAMS
from online.plugins.libraries.sklearn_estimators import Named, build_estimator, check_untrusted_name
from online.plugins.libraries.sklearn_inputs import RowReader
from online.plugins.libraries.wrapped import WrappedEstimator
from online.schemas.events import is_positive
from online.schemas.json_values import JSON, JSONObject

Floats = NDArray[np.float64]

OWN_SHARE = 1e-3  # of a column's own variance: the most by which naive Bayes smooths it
OPTIONS = (
    Option(
        "estimator",
        "sgd",
        "A short name (sgd, perceptron), a place inside scikit-learn, such as linear_model.SGDClassifier, or "
        "package.module:factory of your own, which makes any classifier with partial_fit.",
    ),
    PARAMS,
    *sklearn_inputs.OPTIONS,
    Option(
        "classes", [], "The classes, if you know them: then the estimator is never rebuilt and refuses any other one."
    ),
    Option(
        "buffer",
        1_000,
        "Newest examples from which the estimator is rebuilt when a class is new that is not declared.",
        unit="examples",
        low=1,
        high=1e6,
    ),
    KEY,
)
NAMED: Named = {
    "sgd": ("linear_model.SGDClassifier", {"loss": "log_loss"}),
    "perceptron": ("linear_model.Perceptron", {}),
}


def check_untrusted(options: Options) -> None:
    """Raise ValueError unless the estimator is one of NAMED with its usual parameters."""
    check_untrusted_name(options, "sgd", NAMED)


class SklearnClassifier(WrappedEstimator):
    """A classifier of scikit-learn. Implements `contract.Model`.

    classes: in the order of their first examples. kept: the newest examples, (features, class), if a rebuild may need them.
    """

    learner = "scikit-learn classifier"

    def __init__(self, options: Options, device: str = "cpu") -> None:
        super().__init__(options, OPTIONS)
        self.declared = read_classes(self.options["classes"])
        self.estimator: Any = None  # while fewer than two classes are known
        self.classes: list[str] = [*self.declared]
        self.seen: set[str] = set()
        self.kept: list[tuple[bytes, str]] = []
        built = self._build()  # refuses what cannot be built before anything is learned
        self.is_gaussian, self.counts_columns, self.reads_raw = (
            is_gaussian(built),
            counts_columns(built),
            reads_raw(built),
        )
        self.reader = RowReader.of({**self.options, "scale": self.is_gaussian or self.options["scale"]})
        if len(self.classes) > 1:
            self.estimator = self._build()
        self._begin()

    def _build(self) -> Any:
        return build_estimator(self.options["estimator"], self.options["params"], NAMED, "classifier", "a classifier")

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return str(self.options["input"])

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        if not self.seen:
            return [Answer(None, ()) for _ in inputs]
        return [self._answer(data) for data in inputs]

    def _answer(self, data: bytes) -> Answer:
        chances = self._chances(data)
        if chances is None:
            return Answer(None, (), abstained=True)
        ranked = sorted(
            (pair for pair in zip(self.classes, chances, strict=True) if pair[0] in self.seen),
            key=lambda pair: (-pair[1], pair[0]),
        )
        return Answer(ranked[0][0], tuple(Candidate(label, p) for label, p in ranked), ranked[0][1])

    def _chances(self, data: bytes) -> list[float] | None:
        """Return the probability of each class; None where the estimator gives numbers that are not finite."""
        if self.estimator is None or not hasattr(self.estimator, "classes_"):
            return [float(label in self.seen) for label in self.classes]
        self.failures.tried += 1
        try:
            scores_C = predict_scores(*self._smoothed(data))
        except Exception as error:  # outside of what it accepts, or anything in the operator's code
            self.failures.note_answer(error)
            return None
        # the last digits must not decide
        return [round(float(p), 9) for p in scores_C] if np.isfinite(scores_C).all() else None

    def _smoothed(self, data: bytes) -> tuple[object, NDArray[np.float64]]:
        """Return what answers, and the row [1, D] that it reads."""
        row_1D = self._row(data)
        if self.counts_columns:
            return self.estimator, row_1D[:, : self.estimator.n_features_in_]
        if self.is_gaussian:
            return smooth(self.estimator, self.reader.variance), row_1D
        return self.estimator, row_1D

    def _row(self, data: bytes) -> NDArray[np.float64]:
        return self.reader.raw(data) if self.reads_raw else self.reader.row(data)

    # learn

    def _checked(self, example: Example) -> str:
        if example.kind != "label" and not (example.kind == "reward" and is_positive(example.reward)):
            raise BadExample(
                "a scikit-learn classifier learns labels and rewards of at least 0.5; it cannot learn from wrong answers"
            )
        example_checks.check(example, self.learner, self.options["input"], self.options["size"])
        if self.declared and example.label not in self.declared:
            raise BadExample(
                f"the class {example.label[:40]!r} is not one of `classes`: {', '.join(self.declared)[:200]}"
            )
        return example.label

    def _learn_one(self, example: Example, row: str) -> None:
        self.reader.admit(example.features)
        self.seen.add(row)
        if not self.declared:
            self.kept = [*self.kept, (example.features, row)][-self.options["buffer"] :]
            if row not in self.classes:
                self.classes = [*self.classes, row]
                if len(self.classes) > 1:
                    self._rebuild()
                    return
        if self.estimator is not None:
            self._fit(self.estimator, example.features, row)
        else:  # one class so far: refuse now what a rebuild could not learn
            self._fit(self._build(), example.features, row, more=1)

    def _rebuild(self) -> None:
        self.estimator = self._build()
        for features, label in self.kept:
            self._fit(self.estimator, features, label)

    def _fit(self, estimator: Any, features: bytes, label: str, more: int = 0) -> None:
        """more: classes that are still to come."""
        place, row_1D = np.array([self.classes.index(label)]), self._row(features)
        if self.counts_columns:
            row_1D = row_1D[:, : self.reader.used]
            grow(estimator, self.reader.used)
        estimator.partial_fit(row_1D, place, classes=np.arange(len(self.classes) + more))

    # state

    def _content(self) -> object:
        return self.estimator, self.reader, self.classes, sorted(self.seen), self.kept

    def _adopt(self, content: Any) -> None:
        self.estimator, self.reader, self.classes, seen, self.kept = content
        self.seen = set(seen)

    def _facts(self) -> JSONObject:
        return {}

    def _adopt_facts(self, facts: Mapping[str, object]) -> None:
        pass


def read_classes(given: Sequence[JSON]) -> list[str]:
    """Return the declared classes. Raises ValueError for one alone, for one named twice, and for what is not a text."""
    if not all(isinstance(each, str) and each for each in given) or len({*given}) != len(given) or len(given) == 1:
        raise ValueError(f"option 'classes' must list two classes or more, as texts and each once, not {given!r}")
    return [*given]


def predict_scores(estimator: Any, row_1D: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of each class, [C]; from the decision function where the estimator computes none."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(row_1D)[0], np.float64)
    if not hasattr(estimator, "decision_function"):
        return np.asarray(np.eye(len(estimator.classes_))[int(estimator.predict(row_1D)[0])])
    scores_C = np.asarray(estimator.decision_function(row_1D), np.float64).reshape(-1)
    if len(scores_C) == 1:  # of the second of two classes
        scores_C = np.array([0.0, scores_C[0]])
    grown_C = np.exp(scores_C - scores_C.max())
    return np.asarray(grown_C / grown_C.sum())


def is_gaussian(estimator: object) -> bool:
    """Return whether an estimator is Gaussian naive Bayes."""
    from sklearn.naive_bayes import GaussianNB

    return isinstance(estimator, GaussianNB)


def reads_raw(estimator: object) -> bool:
    """Return whether standardised rows are none to an estimator: counts and categories are not negative, and bell curves have a
    mean and a width of their own, which those of rows whose scale still moves have not."""
    from sklearn.naive_bayes import CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

    return isinstance(estimator, (CategoricalNB, ComplementNB, GaussianNB, MultinomialNB))


def counts_columns(estimator: object) -> bool:
    """Return whether an estimator must read no free columns. Smoothing by a number for each column needs them all from the start."""
    from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

    return isinstance(estimator, (BernoulliNB, ComplementNB, MultinomialNB)) and np.ndim(estimator.alpha) == 0


def grow(estimator: Any, width: int) -> None:
    """Let an estimator that counts columns read `width` of them from now on."""
    more = width - getattr(estimator, "n_features_in_", width)
    if more > 0:
        estimator.feature_count_ = np.pad(estimator.feature_count_, ((0, 0), (0, more)))
        estimator.n_features_in_ = width


def smooth(estimator: Any, variance_D: Floats) -> object:
    """Return a copy of a GaussianNB that answers with variances above zero. variance_D: of each column, over all rows so far.

    What is added is a share of the largest variance, as in scikit-learn, and at most OWN_SHARE of the column's own: a column of
    large numbers must not blur one of small ones.
    """
    share, largest = estimator.var_smoothing, variance_D.max(initial=0.0) or 1.0
    own_D = np.where(variance_D > 0, max(share, OWN_SHARE) * variance_D, np.inf)
    smoothed = copy(estimator)
    smoothed.var_ = estimator.var_ + np.minimum(share * largest, own_D)
    return smoothed
