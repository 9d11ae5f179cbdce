"""A delta turns one version of a file into another, byte for byte, or is refused."""

import json
from typing import Any

import numpy as np
import pytest
import zstandard
from numpy.typing import NDArray
from safetensors.numpy import load, save

from online.models.exchange.sums_file import write_sums
from online.models.statistics.exact import ExactStatistics
from online.plugins.export.file_deltas import apply_delta, read_delta_header, write_delta

WIDTH = 64


def draw_rows(count: int, seed: int = 1, width: int = WIDTH) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-127, 128, (count, width)).astype(np.int8)


def add_rows(statistics: ExactStatistics, rows: NDArray[np.int8], names: str = "abc", **how: Any) -> ExactStatistics:
    statistics.add(rows, [statistics.add_class(names[place % len(names)]) for place in range(len(rows))], **how)
    return statistics


def draw_sums(count: int = 300) -> ExactStatistics:
    return add_rows(ExactStatistics(WIDTH), draw_rows(count))


def write(statistics: ExactStatistics, **meta: Any) -> bytes:
    return write_sums(statistics, {"columns": [["0", True, 3, 0]], **meta})


def check_round_trip(old: bytes, new: bytes) -> bytes:
    delta = write_delta(old, new)
    assert apply_delta(old, delta) == new
    return delta


def test_a_thumb_is_one_row_of_int8() -> None:
    sums = draw_sums()
    old = write(sums, version="1")
    new = write(add_rows(sums, draw_rows(1, seed=2), "b"), version="2")
    delta = check_round_trip(old, new)
    changes = load(delta)
    assert changes.keys() == {"counts", "sums"}, "the Gram matrix follows from them"
    assert changes["sums"].dtype == np.int8
    assert len(zstandard.compress(delta, 19)) < 600 < len(new) / 4


def test_examples_of_several_classes_leave_nothing_of_the_gram_matrix() -> None:
    sums = draw_sums()
    old = write(sums)
    new = write(add_rows(sums, draw_rows(3, seed=2)))
    assert "gram" not in load(check_round_trip(old, new))


def test_several_examples_of_a_class_are_restored() -> None:
    sums = draw_sums()
    old = write(sums)
    check_round_trip(old, write(add_rows(sums, draw_rows(50, seed=2), "ab")))


def test_unlearned_and_negative_examples_are_restored() -> None:
    sums = draw_sums()
    old = write(sums)
    sums = add_rows(sums, draw_rows(1), "a", times=-1)
    check_round_trip(old, write(add_rows(sums, draw_rows(4, seed=3), "c", negative=True)))


def test_new_classes_and_features_are_restored() -> None:
    sums = draw_sums()
    old = write(sums)
    sums.widen(WIDTH + 4)
    check_round_trip(old, write(add_rows(sums, draw_rows(5, seed=2, width=WIDTH + 4), "dxa"), added=True))


def test_a_version_goes_back_as_well() -> None:
    sums = draw_sums()
    old = write(sums, only_here=1)
    check_round_trip(write(add_rows(sums, draw_rows(5), "dea"), other=2), old)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_floats_are_restored_to_the_last_bit(dtype: type) -> None:
    random = np.random.default_rng(1)
    old: NDArray[Any] = random.normal(size=(64, 10)).astype(dtype)
    new = np.pad(old + dtype(1e-3) * random.normal(size=old.shape).astype(dtype), ((0, 0), (0, 2)))
    new[0, :4] = np.nan, -0.0, np.inf, -old[0, 3]
    check_round_trip(save({"matrix": old}), save({"matrix": new}))


def test_a_small_change_of_floats_takes_less_than_the_floats() -> None:
    random = np.random.default_rng(1)
    old = random.normal(size=(384, 100)).astype(np.float32)
    new = old + np.float32(1e-5) * random.normal(size=old.shape).astype(np.float32)
    delta = check_round_trip(save({"matrix": old}), save({"matrix": new}))
    assert len(zstandard.compress(delta, 19)) < 0.4 * len(zstandard.compress(save({"matrix": new}), 19))


def test_flags_json_and_missing_tensors_are_restored() -> None:
    old = {"active": np.array([True, False]), "meta": np.frombuffer(b'{"a":1}', np.uint8), "gone": np.ones(3, np.int64)}
    new = {
        "active": np.array([True] * 3),
        "meta": np.frombuffer(b'{"a":10}', np.uint8),
        "doubt": np.ones(2, np.float32),
    }
    check_round_trip(save(old, {"a": "1", "b": "2"}), save(new, {"b": "3"}))


def test_the_same_files_give_the_same_delta() -> None:
    files = [save({name: np.full(3, value, np.float32) for name in "dacb"}) for value in (1, 2)]
    assert len({write_delta(*files) for _ in range(5)}) == 1


def test_equal_files_have_an_empty_delta() -> None:
    file = write(draw_sums())
    assert load(check_round_trip(file, file)) == {}


def test_a_delta_of_another_file_is_refused() -> None:
    old, new = write(draw_sums()), write(draw_sums(301))
    with pytest.raises(ValueError, match="changes the file with sha256"):
        apply_delta(new, write_delta(old, new))


def test_a_damaged_delta_is_refused() -> None:
    old = write(draw_sums())
    delta = bytearray(write_delta(old, write(draw_sums(301))))
    delta[-1] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        apply_delta(old, bytes(delta))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"layout": {"gram": ["int64", [2**40]]}}, "bytes"),
        ({"layout": {"gram": ["int64", [-1]]}}, "damaged"),
        ({"layout": {"gram": ["int64", [2**40]], "sums": ["int64", [-(2**40)]]}}, "negative length"),
        ({"layout": {"gram": ["object", [1]]}}, "damaged"),
        ({"layout": {"sums": ["int8", [2, 3]]}}, "damaged"),
        ({"layout": 5}, "damaged"),
        ({"format": 2}, "format 2"),
        ({"to_sha256": "0"}, "damaged"),
    ],
)
def test_a_forged_header_is_refused(change: dict[str, Any], why: str) -> None:
    old, new = write(draw_sums()), write(draw_sums(301))
    delta = write_delta(old, new)
    header = read_delta_header(delta)
    fields = {name: getattr(header, name) for name in header.__slots__} | change
    forged = save(load(delta), {"delta": json.dumps(fields)})
    with pytest.raises(ValueError, match=why):
        apply_delta(old, forged)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, save({"a": np.zeros(1)}, {"delta": "[]"}), save({})])
def test_what_is_no_delta_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"safetensors|damaged"):
        apply_delta(write(draw_sums()), data)
