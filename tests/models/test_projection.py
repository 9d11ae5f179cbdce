"""Random features: equal wherever, whenever and in whatever company they are computed."""

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models.projection import COSINES, FLOAT32_COLUMNS, TURN, Projection

NAMES = [f"column {place}" for place in range(1_000)]


def projection(columns: int, width: int = 96, seed: int = 0, octave: float = 8.0, octaves: float = 2.0) -> Projection:
    made = Projection(width, seed, octave, octaves)
    made.name_columns(NAMES[:columns])
    return made


def rows(count: int, columns: int, seed: int = 0) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-127, 128, (count, columns)).astype(np.int8)


def in_integers(made: Projection, x_BD: NDArray[np.int8]) -> NDArray[np.int8]:
    """Sums in int64; one product and one rounding, as documented."""
    sums_BM = x_BD.astype(np.int64) @ made.weights_DM[: x_BD.shape[1]].astype(np.int64)
    turns_BM = (sums_BM.astype(np.float32) + made.phase_M) * made.steps_M
    return np.asarray(COSINES[np.floor(turns_BM).astype(np.int64) % TURN], np.int8)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_company_changes_nothing(batch: int) -> None:
    made, x_BD = projection(40), rows(64, 40)
    parts = [made.features(x_BD[start : start + batch]) for start in range(0, 64, batch)]
    np.testing.assert_array_equal(np.concatenate(parts), made.features(x_BD))


def test_columns_may_come_in_any_order() -> None:
    order = np.random.default_rng(1).permutation(40)
    other = Projection(96, 0, 8.0, 2.0)
    other.name_columns([NAMES[place] for place in order])
    x_BD = rows(64, 40)
    np.testing.assert_array_equal(other.features(x_BD[:, order]), projection(40).features(x_BD))


def test_columns_may_come_one_after_the_other() -> None:
    made = projection(0)
    for count in range(41):
        made.name_columns(NAMES[:count])
    np.testing.assert_array_equal(made.weights_DM, projection(40).weights_DM)


@pytest.mark.parametrize("more", [1, 60, FLOAT32_COLUMNS])
def test_a_column_that_comes_later_changes_nothing_for_rows_without_it(more: int) -> None:
    columns = FLOAT32_COLUMNS - 20
    made, x_BD = projection(columns), rows(100, columns)
    before = made.features(x_BD)
    made.name_columns(NAMES[: min(columns + more, 1_000)])
    grown = np.pad(x_BD, ((0, 0), (0, len(made.weights_DM) - columns)))
    np.testing.assert_array_equal(made.features(grown), before)
    np.testing.assert_array_equal(made.features(x_BD), before)


@pytest.mark.parametrize("columns", [1, 384, FLOAT32_COLUMNS, FLOAT32_COLUMNS + 1, 1_000])
def test_sums_are_those_of_integers(columns: int) -> None:
    made, x_BD = projection(columns), rows(50, columns)
    np.testing.assert_array_equal(made.features(x_BD), in_integers(made, x_BD))


@pytest.mark.parametrize("columns", [FLOAT32_COLUMNS, FLOAT32_COLUMNS + 1])
def test_the_largest_sums_that_there_can_be_are_exact(columns: int) -> None:
    made = projection(columns)
    largest = (127 * np.sign(made.weights_DM[:, :8].T)).astype(np.int8)
    np.testing.assert_array_equal(made.features(largest), in_integers(made, largest))
    made.weights_DM[:] = np.where(made.weights_DM < 0, -186, 186)  # the most that twelve five-bit numbers can be
    assert np.abs(127 * made.weights_DM).sum(0).max() + made.phase_M.max() < 2**24 or columns > FLOAT32_COLUMNS
    np.testing.assert_array_equal(made.features(largest), in_integers(made, largest))


def test_features_are_the_same_in_every_release_and_on_every_machine() -> None:
    x_BD = (np.arange(20 * 30).reshape(20, 30) * 37 % 255 - 127).astype(np.int8)
    made = projection(30, width=64, seed=3)
    assert hashlib.sha256(made.weights_DM.astype(np.int32).tobytes()).hexdigest()[:16] == "b5d8e71a5c98583c"
    assert hashlib.sha256(made.features(x_BD).tobytes()).hexdigest()[:16] == "033c8a919756c4d2"


def test_another_seed_draws_other_features() -> None:
    x_BD = rows(10, 40)
    assert not np.array_equal(projection(40, seed=0).features(x_BD), projection(40, seed=1).features(x_BD))


def test_weights_are_spread_as_if_they_were_normal() -> None:
    weights = projection(400, width=512).weights_DM
    assert abs(weights.mean()) < 0.3
    assert abs(weights.std() - 32) < 0.3
    assert abs((np.abs(weights) < 32).mean() - 0.683) < 0.02


def test_their_products_are_a_gaussian_kernel_of_the_bandwidth_asked_for() -> None:
    made = projection(64, width=8_192, octave=7.0, octaves=0.0)
    x_BD = np.zeros((5, 64), np.int8)
    distances = np.array([0, 32, 64, 96, 120])
    x_BD[:, 0] = distances
    features = made.features(x_BD).astype(np.float64) / 127
    kernel = 2 * (features @ features[0]) / made.width
    np.testing.assert_allclose(kernel, np.exp(-0.5 * (distances / 2**7) ** 2), atol=0.05)


def test_no_features_are_asked_for_and_none_are_made() -> None:
    assert projection(40, width=0).features(rows(3, 40)).shape == (3, 0)
