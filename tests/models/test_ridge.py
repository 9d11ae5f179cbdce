"""Ridge regression solved from sums, and brought up to date without another factorisation."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from online.models.exact import NEGATIVE_PULL, ExactStatistics
from online.models.ridge import ROWS, RidgeSolver

WIDTH, RATIO = 24, 1e-3


class Scene:
    """Statistics of some rows of four classes, and a solver that is told of whatever they are told from then on."""

    def __init__(self, rows: int = 2_000) -> None:
        self.statistics, self.solver = ExactStatistics(WIDTH), RidgeSolver()
        self.tell(*blobs(rows, seed=0))
        self.solver.solve(self.statistics, RATIO)

    def tell(
        self, features: NDArray[np.int8], classes: NDArray[np.int64], negative: bool = False, times: int = 1
    ) -> None:
        self.statistics.widen(features.shape[1])
        places = [self.statistics.add_label(str(place)) for place in classes]
        self.statistics.add(features, places, negative, times)
        self.solver.add(features, places, negative, times)

    def followed(self) -> NDArray[np.float32]:
        return self.solver.solve(self.statistics, RATIO).matrix

    def anew(self) -> NDArray[np.float32]:
        return RidgeSolver().solve(self.statistics, RATIO).matrix


def blobs(count: int, seed: int, classes: int = 4, width: int = WIDTH) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0, 30, (classes, width))
    members = draw.integers(0, classes, count)
    members[:classes] = np.arange(classes)  # so that no class goes without
    return np.clip(np.rint(centres[members] + draw.normal(0, 20, (count, width))), -127, 127).astype(np.int8), members


def taken_back(scene: Scene) -> None:
    features, members = blobs(2_000, seed=0)
    scene.tell(features[:40], members[:40], times=-1)


def told_in_any_way(scene: Scene) -> None:
    scene.tell(*blobs(10, seed=1))
    scene.followed()
    scene.tell(*blobs(10, seed=2), negative=True)
    scene.tell(*blobs(10, seed=3, classes=6))
    scene.followed()
    scene.tell(*blobs(10, seed=1), times=-1)
    scene.tell(*blobs(10, seed=2), negative=True, times=-1)


TOLD: dict[str, Callable[[Scene], None]] = {
    "one row": lambda scene: scene.tell(*blobs(1, seed=1, classes=1)),
    "rows": lambda scene: scene.tell(*blobs(40, seed=1)),
    "rows taken back": taken_back,
    "punishments": lambda scene: scene.tell(*blobs(20, seed=1), negative=True),
    "new classes": lambda scene: scene.tell(*blobs(40, seed=1, classes=7)),
    "all of these in turn": told_in_any_way,
}


@pytest.mark.parametrize("name", TOLD)
def test_weights_brought_up_to_date_equal_those_factorised_anew(name: str) -> None:
    scene = Scene()
    before = scene.followed()
    TOLD[name](scene)
    followed, anew = scene.followed(), scene.anew()
    assert np.abs(followed - anew).max() <= 1e-3 * np.abs(anew).max()
    assert followed.shape != before.shape or not np.array_equal(followed, before), "it moved"


def test_taking_back_what_was_just_told_leaves_the_weights_of_before() -> None:
    scene = Scene()
    before = scene.followed()
    for times in (1, -1):
        scene.tell(*blobs(30, seed=1), times=times)
    assert np.abs(scene.followed() - before).max() <= 1e-5 * np.abs(before).max()


def test_rows_fewer_than_features_lose_no_digits() -> None:
    width = 300
    scene = Scene(rows=20)
    scene.tell(*blobs(20, seed=0, width=width))
    before = scene.followed()
    for times in (1, -1):
        scene.tell(*blobs(30, seed=1, width=width), times=times)
        scene.followed()
    assert np.abs(scene.followed() - before).max() <= 1e-5 * np.abs(before).max()


def test_new_columns_are_factorised_anew() -> None:
    scene = Scene()
    scene.tell(*blobs(40, seed=1, width=WIDTH + 3))
    np.testing.assert_array_equal(scene.followed(), scene.anew())


def test_more_rows_than_an_update_is_worth_are_factorised_anew() -> None:
    scene = Scene()
    scene.tell(*blobs(ROWS + 1, seed=1))
    np.testing.assert_array_equal(scene.followed(), scene.anew())


def test_a_log_that_grew_by_much_is_factorised_anew() -> None:
    scene = Scene(rows=40)
    scene.tell(*blobs(400, seed=1))
    np.testing.assert_array_equal(scene.followed(), scene.anew())


def test_it_is_the_ridge_regression_that_scikit_learn_knows() -> None:
    features, members = blobs(500, seed=0)
    x_BD = features.astype(np.float64)
    strength = RATIO * float((x_BD**2).sum(0).mean()) + 1.0
    peer = Ridge(alpha=strength, fit_intercept=False, solver="cholesky").fit(x_BD, np.eye(4)[members])
    places = np.unique(members, return_index=True)[1].argsort()  # as the statistics number them: first come, first
    np.testing.assert_allclose(Scene(rows=500).anew(), peer.coef_.T[:, places], rtol=1e-4, atol=1e-8)


def test_a_punished_row_counts_as_a_share_of_one_that_is_not_of_its_class() -> None:
    features, members = blobs(500, seed=0)
    scene = Scene()
    scene.tell(features, members, negative=True)
    positive, negative = scene.statistics.sums.double().numpy()
    gram = scene.statistics.gram.double().numpy()
    strength = RATIO * gram.diagonal().mean() + 1.0
    expected = np.linalg.solve(gram + strength * np.eye(WIDTH), (positive - NEGATIVE_PULL * negative).T)
    np.testing.assert_allclose(scene.anew(), expected, rtol=1e-4, atol=1e-8)


def test_a_class_that_was_only_punished_is_not_active() -> None:
    scene = Scene()
    row, _ = blobs(4, seed=1)
    scene.tell(row[:1], np.array([9]), negative=True)
    active = scene.solver.solve(scene.statistics, RATIO).active
    assert active.tolist() == [True] * 4 + [False]


def test_statistics_that_saw_nothing_can_be_solved() -> None:
    weights = RidgeSolver().solve(ExactStatistics(WIDTH), RATIO)
    assert weights.matrix.shape == (WIDTH, 0)
