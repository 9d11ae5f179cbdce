"""The weights of predictors: the best of the last while answers."""

import numpy as np
import pytest

from online.plugins.regression.tracking.tracker import Mixture


def feed(mixture: Mixture, truth: list[float], members_NK: list[list[float]]) -> list[float]:
    predictions = []
    for number, members_K in zip(truth, members_NK, strict=True):
        predictions.append(mixture.predict(np.array(members_K)))
        mixture.add(np.array(members_K), number)
    return predictions


def test_the_member_that_predicts_best_answers_and_another_takes_over_within_ten_numbers() -> None:
    draw, mixture = np.random.default_rng(0), Mixture(2)
    truth = draw.normal(0, 100, 400)
    noisy = truth + draw.normal(0, 60, 400)
    close = truth + draw.normal(0, 3, 400)
    swapped = np.arange(400) >= 200
    members = np.column_stack([np.where(swapped, noisy, close), np.where(swapped, close, noisy)])
    errors = np.abs(np.array(feed(mixture, truth.tolist(), members.tolist())) - truth)
    assert errors[50:200].mean() < 5
    assert errors[210:].mean() < 5


def test_a_constant_error_of_a_member_is_corrected() -> None:
    draw, mixture = np.random.default_rng(0), Mixture(1)
    truth = draw.normal(0, 100, 200)
    members = (truth + 500 + draw.normal(0, 2, 200))[:, None]
    errors = np.abs(np.array(feed(mixture, truth.tolist(), members.tolist())) - truth)
    assert errors[40:].mean() < 5


def test_the_weights_sum_to_one_whatever_the_numbers() -> None:
    mixture = Mixture(3)
    feed(mixture, [0.0, 1e9, -1e9, 0.0], [[0.0, 1.0, 1e9], [0.0, 0.0, 0.0], [1e9, 5.0, -1e9], [0.0, 0.0, 0.0]])
    assert mixture.weights_KL.sum() == pytest.approx(1.0)
    assert (mixture.weights_KL > 0).all()
