"""A buffer keeps a fair sample, and what it draws depends on the seed and the offset alone."""

import numpy as np
import pytest

from online.models.buffer import Buffer, draws


def filled(count: int, size: int = 20, seed: int = 0) -> Buffer:
    buffer = Buffer(size, seed, 2, np.float64)
    for offset in range(count):
        buffer.put(offset, np.full(2, offset), offset % 3, liked=True)
    return buffer


def test_equal_arguments_draw_equal_numbers_and_others_draw_others() -> None:
    assert np.array_equal(draws(1, 2, 3, 8), draws(1, 2, 3, 8))
    for other in (draws(2, 2, 3, 8), draws(1, 1, 3, 8), draws(1, 2, 4, 8), draws(1, 2, 3, 8, 1)):
        assert not np.array_equal(draws(1, 2, 3, 8), other)


def test_what_was_kept_is_a_fair_sample_of_all_that_came() -> None:
    kept = np.concatenate([filled(1_000, seed=seed).offset_N for seed in range(40)])
    share = np.histogram(kept, 5, (0, 1_000))[0] / len(kept)
    assert share == pytest.approx(np.full(5, 0.2), abs=0.06)


def test_a_row_is_kept_with_its_own_label_and_offset() -> None:
    buffer = filled(300)
    assert np.array_equal(buffer.values_ND[:, 0], buffer.offset_N)
    assert np.array_equal(buffer.label_N, buffer.offset_N % 3)


def test_rows_are_drawn_from_those_in_use_alone() -> None:
    assert filled(3).draw(9, 0, 200).max() == 2
    assert set(filled(30).draw(9, 0, 500).tolist()) == set(range(20))


def test_a_restored_buffer_goes_on_as_the_one_it_was() -> None:
    one, other = filled(13), Buffer(20, 0, 2, np.float64)
    other.restore(one.tensors())
    for buffer in (one, other):
        for offset in range(13, 60):
            buffer.put(offset, np.full(2, offset), offset % 3, liked=False)
    assert all(np.array_equal(tensor, other.tensors()[name]) for name, tensor in one.tensors().items())


def test_old_rows_have_no_value_in_a_column_that_came_later() -> None:
    buffer = filled(10)
    buffer.put(11, np.zeros(5), 0, liked=True)
    assert np.isnan(buffer.values_ND[0, 2:]).all()


def test_what_is_forgotten_is_neither_kept_nor_drawn() -> None:
    buffer = filled(15)
    buffer.forget(None, 10)
    assert buffer.offset_N[: buffer.filled].tolist() == [10, 11, 12, 13, 14]
    buffer.forget(2, 14)
    assert buffer.offset_N[: buffer.filled].tolist() == [10, 12, 13, 14]
    assert buffer.tensors()["values"].shape == (4, 2)
