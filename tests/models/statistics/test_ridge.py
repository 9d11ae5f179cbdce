"""Ridge regression solved from sums, and updated without another factorisation."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from online.models.statistics.exact import NEGATIVE_PULL, ExactStatistics
from online.models.statistics.ridge import AT_ONCE, RidgeSolver, compute_strength

WIDTH, RATIO = 24, 1e-3


class Scene:
    """Statistics of rows of four classes, and a solver that gets every later change of them."""

    def __init__(self, rows: int = 2_000) -> None:
        self.statistics, self.solver = ExactStatistics(WIDTH), RidgeSolver()
        self.add(*blobs(rows, seed=0))
        self.solver.solve(self.statistics, RATIO)

    def add(
        self, features: NDArray[np.int8], classes: NDArray[np.int64], negative: bool = False, times: int = 1
    ) -> None:
        self.statistics.widen(features.shape[1])
        indices = [self.statistics.add_class(str(index)) for index in classes]
        self.statistics.add(features, indices, negative, times)
        self.solver.add(features, indices, negative, times)

    def solve_updated(self) -> NDArray[np.float32]:
        return self.solver.solve(self.statistics, RATIO).matrix

    def solve_from_sums(self) -> NDArray[np.float32]:
        return RidgeSolver().solve(self.statistics, RATIO).matrix


def blobs(
    count: int, seed: int, class_count: int = 4, width: int = WIDTH
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0, 30, (class_count, width))
    classes = rng.integers(0, class_count, count)
    classes[:class_count] = np.arange(class_count)  # every class has a row
    return np.clip(np.rint(centres[classes] + rng.normal(0, 20, (count, width))), -127, 127).astype(np.int8), classes


def remove_rows(scene: Scene) -> None:
    features, classes = blobs(2_000, seed=0)
    scene.add(features[:40], classes[:40], times=-1)


def mix_changes(scene: Scene) -> None:
    scene.add(*blobs(10, seed=1))
    scene.solve_updated()
    scene.add(*blobs(10, seed=2), negative=True)
    scene.add(*blobs(10, seed=3, class_count=6))
    scene.solve_updated()
    scene.add(*blobs(10, seed=1), times=-1)
    scene.add(*blobs(10, seed=2), negative=True, times=-1)


CHANGES: dict[str, Callable[[Scene], None]] = {
    "one row": lambda scene: scene.add(*blobs(1, seed=1, class_count=1)),
    "rows": lambda scene: scene.add(*blobs(40, seed=1)),
    "removed rows": remove_rows,
    "negative rows": lambda scene: scene.add(*blobs(20, seed=1), negative=True),
    "new classes": lambda scene: scene.add(*blobs(40, seed=1, class_count=7)),
    "all of these in turn": mix_changes,
}


@pytest.mark.parametrize("name", CHANGES)
def test_updated_weights_equal_those_of_a_full_factorisation(name: str) -> None:
    scene = Scene()
    before = scene.solve_updated()
    CHANGES[name](scene)
    updated, expected = scene.solve_updated(), scene.solve_from_sums()
    assert np.abs(updated - expected).max() <= 1e-6 * np.abs(expected).max()
    assert updated.shape != before.shape or not np.array_equal(updated, before)


def test_retracting_the_last_example_restores_the_weights() -> None:
    scene = Scene()
    before = scene.solve_updated()
    for times in (1, -1):
        scene.add(*blobs(30, seed=1), times=times)
    assert np.abs(scene.solve_updated() - before).max() <= 1e-5 * np.abs(before).max()


def test_fewer_rows_than_features_lose_no_precision() -> None:
    width = 300
    scene = Scene(rows=20)
    scene.add(*blobs(20, seed=0, width=width))
    before = scene.solve_updated()
    for times in (1, -1):
        scene.add(*blobs(30, seed=1, width=width), times=times)
        scene.solve_updated()
    assert np.abs(scene.solve_updated() - before).max() <= 1e-5 * np.abs(before).max()


def test_new_columns_cause_a_full_factorisation() -> None:
    scene = Scene()
    scene.add(*blobs(40, seed=1, width=WIDTH + 3))
    np.testing.assert_array_equal(scene.solve_updated(), scene.solve_from_sums())


def test_many_new_rows_cause_a_full_factorisation() -> None:
    scene = Scene()
    scene.add(*blobs(AT_ONCE + 1, seed=1))
    np.testing.assert_array_equal(scene.solve_updated(), scene.solve_from_sums())


def test_a_much_longer_log_causes_a_full_factorisation() -> None:
    scene = Scene(rows=40)
    scene.add(*blobs(400, seed=1))
    np.testing.assert_array_equal(scene.solve_updated(), scene.solve_from_sums())


def test_weights_equal_those_of_scikit_learn() -> None:
    features, classes = blobs(500, seed=0)
    x_BD = features.astype(np.float64)
    strength = compute_strength(int((x_BD**2).sum()), WIDTH, RATIO)
    peer = Ridge(alpha=strength, fit_intercept=False, solver="cholesky").fit(x_BD, np.eye(4)[classes])
    indices = np.unique(classes, return_index=True)[
        1
    ].argsort()  # the statistics number classes in the order of arrival
    np.testing.assert_allclose(Scene(rows=500).solve_from_sums(), peer.coef_.T[:, indices], rtol=1e-4, atol=1e-8)


def test_a_negative_row_counts_as_a_fraction_of_a_row_of_another_class() -> None:
    features, classes = blobs(500, seed=0)
    scene = Scene()
    scene.add(features, classes, negative=True)
    positive, negative = scene.statistics.sums.astype(np.float64)
    gram = scene.statistics.gram.astype(np.float64)
    strength = compute_strength(int(gram.trace()), WIDTH, RATIO)
    expected = np.linalg.solve(gram + strength * np.eye(WIDTH), (positive - NEGATIVE_PULL * negative).T)
    np.testing.assert_allclose(scene.solve_from_sums(), expected, rtol=1e-4, atol=1e-8)


def test_a_class_with_negative_rows_alone_is_not_active() -> None:
    scene = Scene()
    row, _ = blobs(4, seed=1)
    scene.add(row[:1], np.array([9]), negative=True)
    active = scene.solver.solve(scene.statistics, RATIO).active
    assert active.tolist() == [True] * 4 + [False]


def test_empty_statistics_can_be_solved() -> None:
    weights = RidgeSolver().solve(ExactStatistics(WIDTH), RATIO)
    assert weights.matrix.shape == (WIDTH, 0)
