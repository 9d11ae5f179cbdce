"""Naive Bayes of scikit-learn for rows that come one by one, and for columns that come later.

GaussianNB                                  smooths by the variance of the rows of a call, and a call has one row: by that of all rows so far here
BernoulliNB, ComplementNB, MultinomialNB    count something for every column, so they read those that are in use alone: a column that is
                                            new joins with counts of zero, as if it had been there from the start

So the columns that a table keeps free change none of their answers.

Shapes: C classes, D columns.
"""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
OWN_SHARE = 1e-3


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
