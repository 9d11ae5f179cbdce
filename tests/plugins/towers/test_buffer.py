"""The buffer keeps a uniform sample, and its draws depend on the seed and the offset alone."""

import numpy as np
import pytest

from online.plugins.towers.buffer import Buffer, draw_numbers


def fill(count: int, size: int = 20, seed: int = 0) -> Buffer:
    buffer = Buffer(size, seed, 2, np.float64)
    for offset in range(count):
        buffer.put(offset, np.full(2, offset), offset % 3, liked=True)
    return buffer


def test_draws_depend_on_every_argument() -> None:
    assert np.array_equal(draw_numbers(1, 2, 3, 8), draw_numbers(1, 2, 3, 8))
    for other in (
        draw_numbers(2, 2, 3, 8),
        draw_numbers(1, 1, 3, 8),
        draw_numbers(1, 2, 4, 8),
        draw_numbers(1, 2, 3, 8, 1),
    ):
        assert not np.array_equal(draw_numbers(1, 2, 3, 8), other)


def test_the_buffer_keeps_a_uniform_sample_of_the_stream() -> None:
    kept = np.concatenate([fill(1_000, seed=seed).offset_N for seed in range(40)])
    share = np.histogram(kept, 5, (0, 1_000))[0] / len(kept)
    assert share == pytest.approx(np.full(5, 0.2), abs=0.06)


def test_a_row_is_kept_with_its_own_label_and_offset() -> None:
    buffer = fill(300)
    assert np.array_equal(buffer.values_ND[:, 0], buffer.offset_N)
    assert np.array_equal(buffer.label_N, buffer.offset_N % 3)


def test_only_filled_rows_are_drawn() -> None:
    assert fill(3).draw(9, 0, 200).max() == 2
    assert set(fill(30).draw(9, 0, 500).tolist()) == set(range(20))


def test_a_restored_buffer_continues_unchanged() -> None:
    one, other = fill(13), Buffer(20, 0, 2, np.float64)
    other.restore(one.tensors())
    for buffer in (one, other):
        for offset in range(13, 60):
            buffer.put(offset, np.full(2, offset), offset % 3, liked=False)
    assert all(np.array_equal(tensor, other.tensors()[name]) for name, tensor in one.tensors().items())


def test_old_rows_have_no_value_in_a_later_column() -> None:
    buffer = fill(10)
    buffer.put(11, np.zeros(5), 0, liked=True)
    assert np.isnan(buffer.values_ND[0, 2:]).all()


def test_forgotten_rows_are_neither_kept_nor_drawn() -> None:
    buffer = fill(15)
    buffer.forget(None, 10)
    assert buffer.offset_N[: buffer.filled].tolist() == [10, 11, 12, 13, 14]
    buffer.forget(2, 14)
    assert buffer.offset_N[: buffer.filled].tolist() == [10, 12, 13, 14]
    assert buffer.tensors()["values"].shape == (4, 2)
