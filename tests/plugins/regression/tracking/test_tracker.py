"""The tracker: rows that are added one by one give the same bits as a scan, and it follows a world that moves."""

import numpy as np
import pytest
from numpy.typing import NDArray

from online.plugins.regression.tracking.members import list_products
from online.plugins.regression.tracking.tracker import ROOM, SCAN_LEAST, SCAN_STEP, Correction, Tracker, find_scan_start

Floats = NDArray[np.float64]
NO_PRODUCTS = list_products([])


def make_rows(count: int, seed: int = 0, offset: float = 0.0) -> Floats:
    """Rows z = (1, q, x) of a linear rule, with whole numbers as in a regressor."""
    draw = np.random.default_rng(seed)
    x = draw.integers(-60, 60, (count, 3)).astype(np.float64)
    q = np.rint(x @ np.array([9.0, -5.0, 2.0]) + offset + draw.normal(0, 40, count))
    return np.column_stack([np.ones(count), q, x])


def make_tracker(before: Floats, products: NDArray[np.intp] = NO_PRODUCTS) -> Tracker:
    moments = (before.T @ before).astype(np.int64)
    return Tracker(moments, before[-256:], products, len(before), 3, 0.9)


def to_bytes(correction: Correction | None) -> bytes:
    assert correction is not None
    return correction.weights.tobytes() + correction.scalars.tobytes()


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("products", [NO_PRODUCTS, list_products([0, 2])])
def test_rows_added_in_batches_give_the_same_bits_as_one_scan(size: int, products: NDArray[np.intp]) -> None:
    before, rows = make_rows(300), make_rows(210, 1)
    whole, pieces = make_tracker(before, products), make_tracker(before, products)
    whole.add(rows)
    for start in range(0, len(rows), size):
        pieces.add(rows[start : start + size])
    assert to_bytes(whole.correction()) == to_bytes(pieces.correction())


def test_a_world_that_stands_still_is_hardly_corrected() -> None:
    tracker, later = make_tracker(make_rows(600)), make_rows(300, 2)
    tracker.add(make_rows(300, 1))
    correction = tracker.correction()
    assert correction is not None
    regression = later[:, 2:] @ np.array([9.0, -5.0, 2.0])
    corrected = correction.apply(regression, later[:, 2:].astype(np.int8))
    assert np.abs(corrected - regression).mean() < 10  # a quarter of the noise
    assert correction.reach == pytest.approx(1.0, abs=0.25)


def test_after_a_shift_the_correction_answers_with_it() -> None:
    tracker, later = make_tracker(make_rows(600)), make_rows(300, 2, offset=2_000)
    tracker.add(make_rows(60, 1, offset=2_000))
    correction = tracker.correction()
    assert correction is not None
    regression = later[:, 2:] @ np.array([9.0, -5.0, 2.0])
    corrected = correction.apply(regression, later[:, 2:].astype(np.int8))
    assert np.abs(corrected - later[:, 1]).mean() < 100  # of 2,000


def test_few_rows_give_no_correction() -> None:
    tracker = make_tracker(make_rows(100))
    tracker.add(make_rows(15, 1))
    assert tracker.correction() is None


def test_products_are_read_of_few_numbers_only() -> None:
    assert list_products([0, 4, 8]).tolist() == [[0, 0, 4], [4, 8, 8]]
    assert list_products(list(range(13))).shape == (2, 0)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 767, 768, 5_000, 10**6])
def test_the_rows_that_are_scanned_are_stored(count: int) -> None:
    scanned = count - find_scan_start(count, warming=False)
    assert min(count, SCAN_LEAST) <= scanned < SCAN_LEAST + SCAN_STEP < ROOM
