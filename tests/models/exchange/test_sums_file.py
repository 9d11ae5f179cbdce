"""A file of sums holds the same sums, and what is not one is refused with a reason."""

import json

import numpy as np
import pytest
from safetensors.numpy import save

from online.models.exchange.sums_file import narrow, read_sums, write_sums
from online.models.statistics.exact import ExactStatistics


def make_sums(count: int = 40, width: int = 6) -> ExactStatistics:
    random = np.random.default_rng(5)
    statistics = ExactStatistics(width)
    classes = [statistics.add_class(name) for name in ("b", "ä", "a")]
    for negative in (False, True):
        rows = random.integers(-127, 128, (count, width)).astype(np.int8)
        statistics.add(rows, [classes[place % 3] for place in range(count)], negative)
    return statistics


def write_tensors(**changes: np.ndarray) -> bytes:
    statistics = make_sums()
    tensors = statistics.tensors() | {"gram": statistics.gram[np.triu_indices(6)]} | changes
    return save(tensors, {"sums": json.dumps({"format": 1, "classes": statistics.classes})})


def test_a_file_holds_the_same_sums_and_metadata() -> None:
    statistics = make_sums()
    read = read_sums(write_sums(statistics, {"reads": "vector"}))
    assert read.statistics.digest() == statistics.digest()
    assert read.statistics.classes == statistics.classes
    assert read.meta == {"reads": "vector"}


def test_the_same_sums_give_the_same_file() -> None:
    assert write_sums(make_sums(), {"b": 1, "a": 2}) == write_sums(make_sums(), {"a": 2, "b": 1})


def test_sums_without_examples_are_a_file() -> None:
    read = read_sums(write_sums(ExactStatistics(3), {}))
    assert (read.statistics.width, read.statistics.classes) == (3, [])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([127], np.int8), ([-129], np.int16), ([40_000], np.int32), ([2**40], np.int64), ([], np.int8)],
)
def test_values_are_stored_in_the_narrowest_type(values: list[int], dtype: type) -> None:
    assert narrow(np.array(values, np.int64)).dtype == dtype


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"{}", save({"a": np.zeros(1, np.int8)})])
def test_what_is_no_file_of_sums_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        read_sums(data)


def test_a_tensor_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tensor 'counts' has the shape \[2, 2\], not \[2, 3\]"):
        read_sums(write_tensors(counts=np.zeros((2, 2), np.int64)))


def test_a_tensor_of_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="no integer tensor 'gram'"):
        read_sums(write_tensors(gram=np.zeros(21, np.float32)))


def test_classes_that_repeat_are_refused() -> None:
    data = save({"counts": np.zeros((2, 2), np.int8)}, {"sums": json.dumps({"format": 1, "classes": ["a", "a"]})})
    with pytest.raises(ValueError, match="different classes"):
        read_sums(data)
