"""Weights of linear discriminant analysis: however the sums came about, updated weights are those of the sums."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models.statistics import inverse, slda
from online.models.statistics.exact import ExactStatistics, LinearWeights
from online.models.statistics.slda import TERMS, SldaSolver, solve_slda
from tests.support import first_of

WIDTH, CLASSES = 12, 4
CHANGES = ("add", "add", "add", "subtract", "negative", "widen", "new class", "batch", "describe")


@dataclass
class Scene:
    """Statistics, and a solver that gets every change of them."""

    shrinkage: float = 0.5
    seed: int = 0
    rows: int = 30
    is_described: bool = False
    rounded: bool = False

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.statistics, self.solver = (
            ExactStatistics(WIDTH),
            SldaSolver(self.shrinkage, priors=True, rounded=self.rounded),
        )
        self.centres = self.rng.normal(0, 40, (2 * CLASSES, 40))
        self.added: list[tuple[NDArray[np.int8], int]] = []
        self.described = self.rng.integers(-60, 60, (2 * CLASSES, 40)).astype(np.int8)
        for _ in range(self.rows):
            self.change("add")

    def change(self, change: str) -> None:
        match change:
            case "subtract" if self.added:
                row, place = self.added.pop(int(self.rng.integers(len(self.added))))
                wide = np.pad(row, (0, self.statistics.width - len(row)))
                self.count(wide[None], [place], times=-1)
            case "negative":
                self.count(*self.draw(1), negative=True)
            case "widen":
                self.statistics.widen(min(self.statistics.width + 1, 40))
            case "new class":
                self.statistics.add_class(str(min(len(self.statistics.classes), 2 * CLASSES - 1)))
            case "batch":
                self.count(*self.draw(15))
            case "describe":
                place = int(self.rng.integers(len(self.statistics.classes)))
                self.described[place] = self.rng.integers(-60, 60, 40)
                self.solver.touch(place)
            case _:
                rows, places = self.draw(1)
                self.added.append((rows[0], places[0]))
                self.count(rows, places)

    def draw(self, count: int) -> tuple[NDArray[np.int8], list[int]]:
        known = max(len(self.statistics.classes), CLASSES)
        places = [self.statistics.add_class(str(place)) for place in self.rng.integers(0, known, count)]
        noise = self.rng.normal(0, 25, (count, self.statistics.width))
        rows = self.centres[places, : self.statistics.width] + noise
        return np.clip(np.rint(rows), -127, 127).astype(np.int8), places

    def count(self, rows: NDArray[np.int8], places: list[int], negative: bool = False, times: int = 1) -> None:
        self.statistics.add(rows, places, negative, times)
        self.solver.add(rows, places, negative, times)

    def texts(self) -> NDArray[np.int8] | None:
        return self.described[: len(self.statistics.classes), : self.statistics.width] if self.is_described else None

    def updated(self) -> LinearWeights:
        return self.solver.solve(self.statistics, self.texts())

    def solved(self) -> LinearWeights:
        return solve_slda(self.statistics, self.shrinkage, True, self.texts(), rounded=self.rounded)


def assert_close(updated: LinearWeights, solved: LinearWeights) -> None:
    for one, other in ((updated.matrix, solved.matrix), (updated.bias, solved.bias)):
        assert np.abs(one - other).max(initial=0) <= 1e-6 * np.abs(other).max(initial=1e-9)
    np.testing.assert_array_equal(updated.active, solved.active)


@pytest.mark.parametrize("is_described", [False, True])
@pytest.mark.parametrize("shrinkage", [0.01, 0.5, 2.5])
@pytest.mark.parametrize("seed", first_of(range(12)))
def test_updated_weights_equal_those_solved_from_the_sums(seed: int, shrinkage: float, is_described: bool) -> None:
    scene = Scene(shrinkage, seed, rows=20 * seed, is_described=is_described, rounded=is_described)
    for change in scene.rng.choice(CHANGES, 60).tolist():
        scene.change(change)
        assert_close(scene.updated(), scene.solved())


def test_the_weights_of_a_long_log_equal_those_solved_from_the_sums() -> None:
    scene = Scene()
    for place in range(3 * TERMS):
        scene.change("add")
        updated = scene.updated()
        if place % 97 == 0:
            assert_close(updated, scene.solved())
    assert_close(updated, scene.solved())


def test_highly_correlated_features_lose_no_precision() -> None:
    scene = Scene(shrinkage=1e-3)
    mixed = np.random.default_rng(1).normal(0, 1, (2, WIDTH))
    for _ in range(300):
        rows = np.clip(np.rint(scene.rng.normal(0, 40, (1, 2)) @ mixed), -127, 127).astype(np.int8)
        scene.count(rows, [int(scene.rng.integers(CLASSES))])
        assert_close(scene.updated(), scene.solved())


def test_an_example_costs_no_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, solved = Scene(rows=2_000), 0
    scene.updated()
    original = inverse.invert

    def count_factorisations(a_DD: NDArray[np.float64]) -> object:
        nonlocal solved
        solved += 1
        return original(a_DD)

    monkeypatch.setattr(slda, "invert", count_factorisations)
    for _ in range(200):
        scene.change("add")
        scene.updated()
    assert solved <= 2


def test_large_residuals_cause_another_factorisation() -> None:
    scene = Scene(rows=500)
    scene.updated()
    assert scene.solver._solution is not None
    scene.solver._solution.inverse.add(np.full(WIDTH, 1e-3), 1.0)  # an error, as rounding would leave it
    for _ in range(slda.CHECKED_EVERY + 1):
        scene.change("add")
        updated = scene.updated()
    assert_close(updated, scene.solved())


def test_the_weights_do_not_depend_on_the_order_of_the_examples() -> None:
    scene = Scene(rows=300)
    shuffled = ExactStatistics(WIDTH)
    for row, place in scene.added[::-1]:
        shuffled.add(row[None], [shuffled.add_class(scene.statistics.classes[place])])
    places = [shuffled.add_class(name) for name in scene.statistics.classes]
    one, other = solve_slda(scene.statistics, 0.5, True), solve_slda(shuffled, 0.5, True)
    assert np.abs(one.matrix - other.matrix[:, places]).max() <= 1e-6 * np.abs(one.matrix).max()
