"""Rows on their way to a device arrive as they were, in order, and keep their values."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from online.models.devices.prefetch import prefetch


def test_arrays_of_any_size_arrive_in_order() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-127, 128, (rows, 5), np.int8) for rows in (3, 0, 700, 1, 12, 700)]
    arrived = [*prefetch(arrays, "cpu:1")]  # all at once: a buffer that is filled again changes none of them
    assert len(arrived) == len(arrays)
    for tensor, array in zip(arrived, arrays, strict=True):
        assert tensor.dtype == torch.int8
        assert np.array_equal(tensor.numpy(), array)


def test_arrays_that_are_not_contiguous_arrive_too() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    (tensor,) = prefetch([array], "cpu")
    assert np.array_equal(tensor.numpy(), array)


def test_nothing_arrives_from_nothing() -> None:
    assert [*prefetch([], "cpu")] == []


def test_the_next_array_is_on_its_way_while_one_is_computed_on() -> None:
    asked = list[int]()

    def arrays() -> Iterator[NDArray[np.int64]]:
        for number in range(4):
            asked.append(number)
            yield np.full(2, number, np.int64)

    for number, tensor in enumerate(prefetch(arrays(), "cpu:0")):
        assert tensor.tolist() == [number, number]
        assert asked[-1] == min(number + 1, 3)
