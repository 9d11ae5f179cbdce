"""Random features: equal for any batch, order of columns, release and machine."""

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models.statistics.projection import COSINES, FLOAT32_COLUMNS, TURN, Projection

NAMES = [f"column {place}" for place in range(1_000)]


def create(columns: int, width: int = 96, seed: int = 0, octave: float = 8.0, octaves: float = 2.0) -> Projection:
    projection = Projection(width, seed, octave, octaves)
    projection.name_columns(NAMES[:columns])
    return projection


def rows(count: int, columns: int, seed: int = 0) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-127, 128, (count, columns)).astype(np.int8)


def compute_in_integers(projection: Projection, x_BD: NDArray[np.int8]) -> NDArray[np.int8]:
    """Compute the features from int64 sums, with one product and one rounding, as documented."""
    sums_BM = x_BD.astype(np.int64) @ projection.weights_DM[: x_BD.shape[1]].astype(np.int64)
    turns_BM = (sums_BM.astype(np.float32) + projection.phase_M) * projection.steps_M
    return np.asarray(COSINES[np.floor(turns_BM).astype(np.int64) % TURN], np.int8)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_features_do_not_depend_on_the_other_rows_of_a_batch(batch: int) -> None:
    projection, x_BD = create(40), rows(64, 40)
    parts = [projection.features(x_BD[start : start + batch]) for start in range(0, 64, batch)]
    np.testing.assert_array_equal(np.concatenate(parts), projection.features(x_BD))


def test_features_do_not_depend_on_the_order_of_columns() -> None:
    order = np.random.default_rng(1).permutation(40)
    other = Projection(96, 0, 8.0, 2.0)
    other.name_columns([NAMES[place] for place in order])
    x_BD = rows(64, 40)
    np.testing.assert_array_equal(other.features(x_BD[:, order]), create(40).features(x_BD))


def test_columns_can_be_added_one_by_one() -> None:
    projection = create(0)
    for count in range(41):
        projection.name_columns(NAMES[:count])
    np.testing.assert_array_equal(projection.weights_DM, create(40).weights_DM)


@pytest.mark.parametrize("more", [1, 60, FLOAT32_COLUMNS])
def test_a_later_column_does_not_change_rows_without_it(more: int) -> None:
    columns = FLOAT32_COLUMNS - 20
    projection, x_BD = create(columns), rows(100, columns)
    before = projection.features(x_BD)
    projection.name_columns(NAMES[: min(columns + more, 1_000)])
    widened = np.pad(x_BD, ((0, 0), (0, len(projection.weights_DM) - columns)))
    np.testing.assert_array_equal(projection.features(widened), before)
    np.testing.assert_array_equal(projection.features(x_BD), before)


@pytest.mark.parametrize("columns", [1, 384, FLOAT32_COLUMNS, FLOAT32_COLUMNS + 1, 1_000])
def test_features_equal_those_of_integer_arithmetic(columns: int) -> None:
    projection, x_BD = create(columns), rows(50, columns)
    np.testing.assert_array_equal(projection.features(x_BD), compute_in_integers(projection, x_BD))


@pytest.mark.parametrize("columns", [FLOAT32_COLUMNS, FLOAT32_COLUMNS + 1])
def test_the_largest_possible_sums_are_exact(columns: int) -> None:
    projection = create(columns)
    largest = (127 * np.sign(projection.weights_DM[:, :8].T)).astype(np.int8)
    np.testing.assert_array_equal(projection.features(largest), compute_in_integers(projection, largest))
    projection.weights_DM[:] = np.where(
        projection.weights_DM < 0, -186, 186
    )  # the largest sum of twelve five-bit numbers
    assert (
        np.abs(127 * projection.weights_DM).sum(0).max() + projection.phase_M.max() < 2**24 or columns > FLOAT32_COLUMNS
    )
    np.testing.assert_array_equal(projection.features(largest), compute_in_integers(projection, largest))


def test_features_are_the_same_in_every_release_and_on_every_machine() -> None:
    x_BD = (np.arange(20 * 30).reshape(20, 30) * 37 % 255 - 127).astype(np.int8)
    projection = create(30, width=64, seed=3)
    assert hashlib.sha256(projection.weights_DM.astype(np.int32).tobytes()).hexdigest()[:16] == "b5d8e71a5c98583c"
    assert hashlib.sha256(projection.features(x_BD).tobytes()).hexdigest()[:16] == "033c8a919756c4d2"


def test_another_seed_gives_other_features() -> None:
    x_BD = rows(10, 40)
    assert not np.array_equal(create(40, seed=0).features(x_BD), create(40, seed=1).features(x_BD))


def test_weights_are_distributed_like_normal_ones() -> None:
    weights = create(400, width=512).weights_DM
    assert abs(weights.mean()) < 0.3
    assert abs(weights.std() - 32) < 0.3
    assert abs((np.abs(weights) < 32).mean() - 0.683) < 0.02


def test_products_of_features_approximate_a_gaussian_kernel_of_the_given_bandwidth() -> None:
    projection = create(64, width=8_192, octave=7.0, octaves=0.0)
    x_BD = np.zeros((5, 64), np.int8)
    distances = np.array([0, 32, 64, 96, 120])
    x_BD[:, 0] = distances
    features = projection.features(x_BD).astype(np.float64) / 127
    kernel = 2 * (features @ features[0]) / projection.width
    np.testing.assert_allclose(kernel, np.exp(-0.5 * (distances / 2**7) ** 2), atol=0.05)


def test_a_width_of_zero_gives_no_features() -> None:
    assert create(40, width=0).features(rows(3, 40)).shape == (3, 0)
