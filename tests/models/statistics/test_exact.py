"""Integer sums, exact for any order, batches, workers and device; and the weights solved from them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from online.models.devices.fallback import Fallback, listening
from online.models.statistics.exact import (
    DEVICE_ROWS,
    FLOAT32_ROWS,
    ExactStatistics,
    float_gram_product,
    gram_product,
    integer_gram_product,
    narrow_gram_product,
)
from online.models.statistics.slda import solve_slda
from tests.models.devices.fakes import LimitedMemory

WIDTH = 24


@dataclass(frozen=True)
class Batch:
    features: NDArray[np.int8]
    classes: list[int]
    negative: list[bool]

    def __getitem__(self, rows: slice) -> "Batch":
        return Batch(self.features[rows], self.classes[rows], self.negative[rows])


def make_batch(count: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    features = rng.integers(-127, 128, (count, WIDTH)).astype(np.int8)
    return Batch(features, rng.integers(0, 5, count).tolist(), (rng.random(count) < 0.2).tolist())


def add(statistics: ExactStatistics, batch: Batch, times: int = 1) -> ExactStatistics:
    for label in "abcde":
        statistics.add_class(label)
    for negative in (False, True):
        rows = [index for index, is_negative in enumerate(batch.negative) if is_negative == negative]
        statistics.add(batch.features[rows], [batch.classes[row] for row in rows], negative, times)
    return statistics


def summed(batch: Batch, device: str = "cpu") -> ExactStatistics:
    return add(ExactStatistics(WIDTH, device), batch)


@pytest.mark.parametrize("rows", [1, 200, FLOAT32_ROWS + 1])
def test_products_in_integers_and_in_floats_are_the_same(rows: int) -> None:
    x_BD = np.random.default_rng(rows).choice([-127, -1, 127], (rows, 20)).astype(np.int8)
    every = [product(torch.from_numpy(x_BD)) for product in (gram_product, integer_gram_product, float_gram_product)]
    expected = x_BD.astype(np.int64).T @ x_BD.astype(np.int64)
    assert all((each.numpy() == expected).all() for each in every)
    assert (narrow_gram_product(x_BD) == expected).all()


def sum_by_rows(batch: Batch) -> dict[str, NDArray[np.int64]]:
    """Compute the same sums row by row in int64."""
    counts, sums = np.zeros((2, 5), np.int64), np.zeros((2, 5, WIDTH), np.int64)
    gram = np.zeros((WIDTH, WIDTH), np.int64)
    for row, c, negative in zip(batch.features.astype(np.int64), batch.classes, batch.negative, strict=True):
        counts[int(negative), c] += 1
        sums[int(negative), c] += row
        gram += 0 if negative else np.outer(row, row)
    return {"counts": counts, "sums": sums, "gram": gram}


def assert_equal(statistics: ExactStatistics, expected: dict[str, NDArray[np.int64]]) -> None:
    for name, tensor in statistics.tensors().items():
        assert tensor.dtype == np.int64
        np.testing.assert_array_equal(tensor, expected[name])


@pytest.mark.parametrize("count", [1, 37, FLOAT32_ROWS, FLOAT32_ROWS + 1, 4_001])
def test_sums_equal_those_of_int64_arithmetic(count: int) -> None:
    batch = make_batch(count)
    assert_equal(summed(batch), sum_by_rows(batch))


@pytest.mark.parametrize("count", [FLOAT32_ROWS, 5 * FLOAT32_ROWS + 3])
def test_the_largest_features_of_the_largest_batch_are_summed_exactly(count: int) -> None:
    largest = np.full((count, WIDTH), 127, np.int8)
    largest[:, 1::2] = -127
    largest[-1, 0] = 126  # an odd sum, which float32 cannot represent
    batch = Batch(largest, [0] * count, [False] * count)
    assert_equal(summed(batch), sum_by_rows(batch))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_merged_workers_equal_one_that_learned_everything(workers: int) -> None:
    batch, merged = make_batch(2_000), ExactStatistics(WIDTH)
    for worker in range(workers):
        merged.merge(summed(batch[worker::workers]))
    assert merged.digest() == summed(batch).digest()


def test_workers_with_another_order_of_classes_merge() -> None:
    one, other = ExactStatistics(WIDTH), ExactStatistics(WIDTH)
    rows = make_batch(4).features
    for statistics, labels in ((one, "ab"), (other, "ba")):
        for label in labels:
            statistics.add_class(label)
    one.add(rows, [0, 0, 1, 1])
    other.add(rows, [1, 1, 0, 0])
    assert one.digest() == other.digest()
    one.merge(other)
    assert one.counts[0].tolist() == [4, 4]


def test_subtracting_rows_equals_never_having_added_them() -> None:
    batch = make_batch(1_500)
    subtracted = add(summed(batch), batch[300:900], times=-1)
    rest = summed(batch[:300])
    assert subtracted.digest() == add(rest, batch[900:]).digest()


def test_subtracting_everything_leaves_empty_statistics() -> None:
    batch = make_batch(50)
    assert add(summed(batch), batch, times=-1).digest() == ExactStatistics(WIDTH).digest()


def test_any_order_and_any_batches_give_the_same_digest() -> None:
    batch = make_batch(700)
    order = np.random.default_rng(1).permutation(700)
    shuffled = Batch(batch.features[order], [batch.classes[n] for n in order], [batch.negative[n] for n in order])
    in_batches = add(add(add(ExactStatistics(WIDTH), shuffled[:1]), shuffled[1:333]), shuffled[333:])
    assert in_batches.digest() == summed(batch).digest()


def test_the_digest_does_not_depend_on_the_order_of_classes() -> None:
    one, other = ExactStatistics(2), ExactStatistics(2)
    rows = np.array([[1, 2], [3, 4]], np.int8)
    for statistics, labels in ((one, ["x", "y"]), (other, ["y", "x"])):
        statistics.add(rows, [statistics.add_class(label) for label in labels][:: 1 if labels[0] == "x" else -1])
    assert one.classes != other.classes
    assert one.digest() == other.digest()


@pytest.mark.parametrize("changed", ["row", "label", "sign"])
def test_the_digest_depends_on_every_example(changed: str) -> None:
    batch = make_batch(100)
    other = make_batch(100)
    if changed == "row":
        other.features[57, 3] ^= 1
    elif changed == "label":
        other.classes[57] = (other.classes[57] + 1) % 5
    else:
        other.negative[57] = not other.negative[57]
    assert summed(batch).digest() != summed(other).digest()


def test_a_class_keeps_its_index_when_others_are_added() -> None:
    statistics = summed(make_batch(100))
    before = statistics.tensors()["sums"]
    assert statistics.add_class("a") == 0
    assert statistics.add_class("0 sorts before all") == 5
    assert statistics.classes == [*"abcde", "0 sorts before all"]
    np.testing.assert_array_equal(statistics.tensors()["sums"][:, :5], before)


def test_widening_equals_features_that_were_zero_from_the_start() -> None:
    batch = make_batch(200)
    narrow = ExactStatistics(WIDTH)
    add(narrow, batch)
    narrow.widen(WIDTH + 6)
    zeros = np.zeros((200, 6), np.int8)
    wide = add(
        ExactStatistics(WIDTH + 6), Batch(np.concatenate([batch.features, zeros], 1), batch.classes, batch.negative)
    )
    assert narrow.digest() == wide.digest()


def test_a_narrower_worker_merges_into_a_wider_one() -> None:
    wide, narrow = ExactStatistics(3), ExactStatistics(2)
    wide.add(np.array([[1, 2, 3]], np.int8), [wide.add_class("a")])
    narrow.add(np.array([[5, 6]], np.int8), [narrow.add_class("a")])
    both = ExactStatistics(3)
    both.add(np.array([[1, 2, 3], [5, 6, 0]], np.int8), [both.add_class("a")] * 2)
    wide.merge(narrow)
    assert wide.digest() == both.digest()


def test_the_digest_by_names_does_not_depend_on_the_order_of_columns() -> None:
    batch = make_batch(50)
    names = [f"column {n}" for n in range(WIDTH)]
    order = np.random.default_rng(2).permutation(WIDTH)
    reordered = summed(Batch(batch.features[:, order], batch.classes, batch.negative))
    assert reordered.digest([names[n] for n in order]) == summed(batch).digest(names)
    assert reordered.digest(names) != summed(batch).digest(names)


def test_restored_sums_continue_unchanged() -> None:
    batch = make_batch(300)
    first = summed(batch[:100])
    resumed = ExactStatistics.from_tensors(first.classes, first.tensors())
    assert add(resumed, batch[100:]).digest() == summed(batch).digest()
    assert first.digest() == summed(batch[:100]).digest()


@pytest.mark.parametrize("times", [1, -1])
def test_large_batches_are_summed_by_class_on_the_device(times: int) -> None:
    draw = np.random.default_rng(3)
    rows = draw.integers(-127, 128, (DEVICE_ROWS + 1, 24), dtype=np.int8)
    classes = draw.integers(3, size=len(rows)).tolist()
    digests = []
    for place in ("cpu", "cpu:0"):  # torch's own name of the CPU takes the way of an accelerator
        statistics = ExactStatistics(24, place)
        for label in "abc":
            statistics.add_class(label)
        statistics.add(rows, classes, times=times)
        statistics.add(rows, classes, negative=True)
        digests.append(statistics.digest())
    assert digests[0] == digests[1]


def test_a_gpu_gives_the_same_digest() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    batch = make_batch(5_000)
    on_gpu = summed(batch, "cuda")
    assert on_gpu.digest() == summed(batch).digest()
    on_gpu.merge(summed(batch))
    assert on_gpu.digest() == add(summed(batch), batch).digest()


def test_a_device_gives_the_same_digest_as_the_cpu() -> None:
    batch = make_batch(5_000)
    on_device = summed(batch, "cpu:1")
    assert on_device.place == "cpu:1" and isinstance(on_device.device_gram(), torch.Tensor)
    assert on_device.digest() == summed(batch).digest()


def test_sums_that_do_not_fit_at_once_are_added_in_pieces_with_the_same_digest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch, on_device = make_batch(3_000), ExactStatistics(WIDTH, "cpu:1")
    noted = list[Fallback]()
    with LimitedMemory(12_000) as memory, listening(noted.append):  # bytes: of 125 rows in float32, and of the sums
        assert add(on_device, batch).digest() == summed(batch).digest()
    assert memory.refused and on_device.place == "cpu:1"
    assert {each.what for each in noted} == {"statistics"}
    assert all(each.device == "cpu:1" and each.to.endswith("rows at once") for each in noted)
    assert "cpu:1 is out of memory: statistics continues with" in caplog.text


def test_a_device_without_room_for_any_piece_leaves_the_sums_to_the_cpu() -> None:
    batch, on_device = make_batch(3_000), ExactStatistics(WIDTH, "cpu:1")
    add(on_device, batch[:1_500])
    on_device.device_gram()
    noted = list[Fallback]()
    with LimitedMemory(100), listening(noted.append):
        assert add(on_device, batch[1_500:]).digest() == summed(batch).digest()
    assert on_device.place == "cpu" and isinstance(on_device.device_gram(), np.ndarray)
    assert noted[-1].to == "on the CPU"


def test_sums_that_never_fitted_on_the_device_begin_on_the_cpu() -> None:
    batch, on_device = make_batch(300), ExactStatistics(WIDTH, "cpu:1")
    with LimitedMemory(100):
        assert add(on_device, batch).digest() == summed(batch).digest()
    assert on_device.place == "cpu"


# solving


def lda(features: NDArray[np.int8], classes: Sequence[int]) -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr").fit(features.astype(np.float64), classes)


def solved_choices(features: NDArray[np.int8], classes: Sequence[int], inputs: NDArray[np.int8]) -> NDArray[np.intp]:
    statistics = ExactStatistics(features.shape[1])
    for label in range(max(classes) + 1):
        statistics.add_class(str(label))
    statistics.add(features, classes)
    weights = solve_slda(statistics, shrinkage=1e-6, priors=True)
    assert weights.active.all()
    chosen: NDArray[np.intp] = (inputs.astype(np.float32) @ weights.matrix + weights.bias).argmax(1)
    return chosen


def test_with_little_shrinkage_it_agrees_with_lda_of_scikit_learn_on_blobs() -> None:
    values, classes = make_blobs(3_000, n_features=12, centers=6, cluster_std=4.0, random_state=0)
    features = np.clip(np.rint(5 * values), -127, 127).astype(np.int8)
    chosen = solved_choices(features[:2_000], classes[:2_000].tolist(), features[2_000:])
    expected = lda(features[:2_000], classes[:2_000].tolist()).predict(features[2_000:].astype(np.float64))
    assert (chosen == expected).mean() >= 0.99


def test_with_little_shrinkage_it_agrees_with_lda_of_scikit_learn_on_digits() -> None:
    digits = load_digits()
    features = (7 * digits.data).astype(np.int8)
    features = features[:, features.std(0) > 3]  # LDA of scikit-learn has no ridge: a constant pixel is singular
    classes = digits.target.tolist()
    chosen = solved_choices(features[:1_200], classes[:1_200], features[1_200:])
    expected = lda(features[:1_200], classes[:1_200]).predict(features[1_200:].astype(np.float64))
    assert (chosen == expected).mean() >= 0.98


def test_one_example_per_class_is_enough_to_choose_the_nearest_mean() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(-40, 41, (5, 384)).astype(np.int8)
    statistics = ExactStatistics(384)
    statistics.add(features, [statistics.add_class(label) for label in "abcde"])
    weights = solve_slda(statistics, 2.5, priors=True)
    noisy = features + rng.integers(-15, 16, (5, 384))
    assert (noisy.astype(np.float32) @ weights.matrix + weights.bias).argmax(1).tolist() == [0, 1, 2, 3, 4]


def test_a_class_with_negative_examples_alone_is_not_active() -> None:
    statistics = ExactStatistics(4)
    rows = np.array([[9, 0, 0, 0], [0, 9, 0, 0]], np.int8)
    statistics.add(rows[:1], [statistics.add_class("right")])
    statistics.add(rows[1:], [statistics.add_class("wrong")], negative=True)
    assert solve_slda(statistics, 0.5, priors=True).active.tolist() == [True, False]


@pytest.mark.parametrize("value", [0, 1, 127])
def test_constant_features_still_give_finite_weights(value: int) -> None:
    statistics = ExactStatistics(8)
    classes = [statistics.add_class(label) for label in "ab"] * 20
    statistics.add(np.full((40, 8), value, np.int8), classes)
    weights = solve_slda(statistics, 0.5, priors=True)
    assert np.isfinite(weights.matrix).all() and np.isfinite(weights.bias).all()


def test_a_negative_example_lowers_the_score_of_its_class() -> None:
    batch = make_batch(200)
    positives = Batch(batch.features, batch.classes, [False] * 200)
    before = solve_slda(summed(positives), 0.5, priors=True)
    with_negative = summed(positives)
    with_negative.add(batch.features[:1], [0], negative=True)
    after = solve_slda(with_negative, 0.5, priors=True)
    inputs = batch.features[0].astype(np.float32)
    assert inputs @ after.matrix[:, 0] + after.bias[0] < inputs @ before.matrix[:, 0] + before.bias[0]


def count_calls(statistics: ExactStatistics, count: int) -> int:
    """How many calls it takes to add so many examples one by one."""
    row, calls = np.ones((1, WIDTH), np.int8), 0

    def note(_: Any, what: str, __: Any) -> None:
        nonlocal calls
        calls += what in ("call", "c_call")

    sys.setprofile(note)
    try:
        for _ in range(count):
            statistics.add(row, [0], times=-1)
    finally:
        sys.setprofile(None)
    return calls


def test_examples_one_by_one_cost_the_same_however_many_wait() -> None:
    statistics = ExactStatistics(WIDTH, "cpu")
    statistics.add_class("a")
    first = count_calls(statistics, 100)
    statistics.add(np.ones((1, WIDTH), np.int8), [0])
    assert count_calls(statistics, 100) <= first
