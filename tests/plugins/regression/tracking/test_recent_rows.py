"""The stored rows: a function of the set of examples, whatever the order and the batches."""

import numpy as np
import pytest

from online.plugins.regression.tracking.recent_world import TrackedRows
from tests.support import first_of


def fill(batches: list[list[int]], room: int = 10) -> TrackedRows:
    """Rows whose features and number follow from their offset."""
    rows = TrackedRows(room, 2)
    for offsets in batches:
        x_BD = np.array([[offset % 100, -(offset % 50)] for offset in offsets], np.int8)
        rows.add(offsets, x_BD, np.array([3 * offset for offset in offsets], np.int64))
    return rows


def content(rows: TrackedRows) -> list[list[float]]:
    return [[offset, *row] for offset, row in zip(rows.offsets_N.tolist(), rows.extended(0, 2).tolist(), strict=True)]


IN_ORDER = fill([list(range(1, 31))])


@pytest.mark.parametrize("size", [1, 3, 30])
@pytest.mark.parametrize("seed", first_of([0, 1, 2]))
def test_order_and_batches_do_not_change_what_is_stored(size: int, seed: int) -> None:
    offsets = (1 + np.random.default_rng(seed).permutation(30)).tolist()
    assert content(fill([offsets[start : start + size] for start in range(0, 30, size)])) == content(IN_ORDER)


def test_the_newest_rows_are_stored_and_the_oldest_dropped() -> None:
    assert IN_ORDER.offsets_N.tolist() == list(range(21, 31))
    assert IN_ORDER.extended(0, 2)[0].tolist() == [1.0, 63.0, 21.0, -21.0]


def test_a_removed_row_leaves_no_trace() -> None:
    rows = fill([[1, 2, 3, 4]])
    rows.remove([2, 99])
    assert content(rows) == content(fill([[1, 3, 4]]))


def test_rows_that_are_older_than_a_feature_have_zeros_for_it() -> None:
    rows = fill([[1, 2]])
    rows.add([3], np.array([[7, 8, 9]], np.int8), np.array([5], np.int64))
    assert rows.extended(0, 4)[:, 4:].tolist() == [[0.0, 0.0], [0.0, 0.0], [9.0, 0.0]]


def test_adding_says_whether_the_rows_followed_in_order() -> None:
    rows, x_BD, q_B = TrackedRows(10, 1), np.zeros((2, 1), np.int8), np.zeros(2, np.int64)
    assert rows.add([1, 5], x_BD, q_B)
    assert not rows.add([3, 9], x_BD, q_B)
    assert rows.offsets_N.tolist() == [1, 3, 5, 9]


def test_stored_tensors_restore_the_same_rows() -> None:
    again = TrackedRows(10, 2)
    again.restore(IN_ORDER.tensors(2))
    assert content(again) == content(IN_ORDER)
