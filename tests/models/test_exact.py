"""Integer sums: exact, whatever the order, the cut, the worker or the device; and the weights solved from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from online.models.exact import FLOAT32_ROWS, ExactStatistics, solve_slda

WIDTH = 24


@dataclass(frozen=True)
class Data:
    features: NDArray[np.int8]
    classes: list[int]
    negative: list[bool]

    def __getitem__(self, rows: slice) -> "Data":
        return Data(self.features[rows], self.classes[rows], self.negative[rows])


def data(count: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    features = rng.integers(-127, 128, (count, WIDTH)).astype(np.int8)
    return Data(features, rng.integers(0, 5, count).tolist(), (rng.random(count) < 0.2).tolist())


def add(statistics: ExactStatistics, some: Data, times: int = 1) -> ExactStatistics:
    for label in "abcde":
        statistics.add_label(label)
    for negative in (False, True):
        rows = [place for place, found in enumerate(some.negative) if found == negative]
        statistics.add(some.features[rows], [some.classes[row] for row in rows], negative, times)
    return statistics


def joint(some: Data, device: str = "cpu") -> ExactStatistics:
    return add(ExactStatistics(WIDTH, device), some)


def reference(some: Data) -> dict[str, NDArray[np.int64]]:
    """The same sums, row by row in int64."""
    counts, sums = np.zeros((2, 5), np.int64), np.zeros((2, 5, WIDTH), np.int64)
    gram = np.zeros((WIDTH, WIDTH), np.int64)
    for row, c, negative in zip(some.features.astype(np.int64), some.classes, some.negative, strict=True):
        counts[int(negative), c] += 1
        sums[int(negative), c] += row
        gram += 0 if negative else np.outer(row, row)
    return {"counts": counts, "sums": sums, "gram": gram}


def assert_equal(statistics: ExactStatistics, expected: dict[str, NDArray[np.int64]]) -> None:
    for name, tensor in statistics.tensors().items():
        assert tensor.dtype == np.int64
        np.testing.assert_array_equal(tensor, expected[name])


@pytest.mark.parametrize("count", [1, 37, FLOAT32_ROWS, FLOAT32_ROWS + 1, 4_001])
def test_the_sums_are_those_of_int64_arithmetic(count: int) -> None:
    some = data(count)
    assert_equal(joint(some), reference(some))


@pytest.mark.parametrize("count", [FLOAT32_ROWS, 5 * FLOAT32_ROWS + 3])
def test_the_largest_features_of_the_largest_batch_are_summed_exactly(count: int) -> None:
    largest = np.full((count, WIDTH), 127, np.int8)
    largest[:, 1::2] = -127
    largest[-1, 0] = 126  # an odd one: float32 would lose it
    some = Data(largest, [0] * count, [False] * count)
    assert_equal(joint(some), reference(some))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_workers_that_merge_equal_one_that_saw_everything(workers: int) -> None:
    some, merged = data(2_000), ExactStatistics(WIDTH)
    for worker in range(workers):
        merged.merge(joint(some[worker::workers]))
    assert merged.digest() == joint(some).digest()


def test_workers_that_met_the_labels_in_another_order_merge_all_the_same() -> None:
    here, there = ExactStatistics(WIDTH), ExactStatistics(WIDTH)
    rows = data(4).features
    for statistics, labels in ((here, "ab"), (there, "ba")):
        for label in labels:
            statistics.add_label(label)
    here.add(rows, [0, 0, 1, 1])
    there.add(rows, [1, 1, 0, 0])
    assert here.digest() == there.digest()
    here.merge(there)
    assert here.counts[0].tolist() == [4, 4]


def test_subtracting_equals_never_having_seen() -> None:
    some = data(1_500)
    subtracted = add(joint(some), some[300:900], times=-1)
    rest = joint(some[:300])
    assert subtracted.digest() == add(rest, some[900:]).digest()


def test_subtracting_everything_leaves_what_nothing_left() -> None:
    some = data(50)
    assert add(joint(some), some, times=-1).digest() == ExactStatistics(WIDTH).digest()


def test_any_order_and_any_cut_give_the_same_digest() -> None:
    some = data(700)
    order = np.random.default_rng(1).permutation(700)
    another = Data(some.features[order], [some.classes[n] for n in order], [some.negative[n] for n in order])
    cut = add(add(add(ExactStatistics(WIDTH), another[:1]), another[1:333]), another[333:])
    assert cut.digest() == joint(some).digest()


def test_the_digest_does_not_depend_on_the_order_of_labels() -> None:
    one, other = ExactStatistics(2), ExactStatistics(2)
    rows = np.array([[1, 2], [3, 4]], np.int8)
    for statistics, labels in ((one, ["x", "y"]), (other, ["y", "x"])):
        statistics.add(rows, [statistics.add_label(label) for label in labels][:: 1 if labels[0] == "x" else -1])
    assert one.labels != other.labels
    assert one.digest() == other.digest()


@pytest.mark.parametrize("changed", ["row", "label", "sign"])
def test_the_digest_depends_on_every_example(changed: str) -> None:
    some = data(100)
    other = data(100)
    if changed == "row":
        other.features[57, 3] ^= 1
    elif changed == "label":
        other.classes[57] = (other.classes[57] + 1) % 5
    else:
        other.negative[57] = not other.negative[57]
    assert joint(some).digest() != joint(other).digest()


def test_an_index_keeps_its_meaning_when_labels_are_added() -> None:
    statistics = joint(data(100))
    before = statistics.tensors()["sums"]
    assert statistics.add_label("a") == 0
    assert statistics.add_label("0 sorts before all") == 5
    assert statistics.labels == [*"abcde", "0 sorts before all"]
    np.testing.assert_array_equal(statistics.tensors()["sums"][:, :5], before)


def test_widening_equals_features_that_were_zero_all_along() -> None:
    some = data(200)
    narrow = ExactStatistics(WIDTH)
    add(narrow, some)
    narrow.widen(WIDTH + 6)
    zeros = np.zeros((200, 6), np.int8)
    wide = add(ExactStatistics(WIDTH + 6), Data(np.concatenate([some.features, zeros], 1), some.classes, some.negative))
    assert narrow.digest() == wide.digest()


def test_a_narrower_worker_merges_into_a_wider_one() -> None:
    wide, narrow = ExactStatistics(3), ExactStatistics(2)
    wide.add(np.array([[1, 2, 3]], np.int8), [wide.add_label("a")])
    narrow.add(np.array([[5, 6]], np.int8), [narrow.add_label("a")])
    both = ExactStatistics(3)
    both.add(np.array([[1, 2, 3], [5, 6, 0]], np.int8), [both.add_label("a")] * 2)
    wide.merge(narrow)
    assert wide.digest() == both.digest()


def test_columns_in_another_order_have_the_same_digest_by_name() -> None:
    some = data(50)
    names = [f"column {n}" for n in range(WIDTH)]
    order = np.random.default_rng(2).permutation(WIDTH)
    moved = joint(Data(some.features[:, order], some.classes, some.negative))
    assert moved.digest([names[n] for n in order]) == joint(some).digest(names)
    assert moved.digest(names) != joint(some).digest(names)


def test_restored_sums_go_on_as_if_nothing_had_happened() -> None:
    some = data(300)
    first = joint(some[:100])
    resumed = ExactStatistics.restored(first.labels, first.tensors())
    assert add(resumed, some[100:]).digest() == joint(some).digest()
    assert first.digest() == joint(some[:100]).digest()


def test_a_gpu_gives_the_same_digest() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    some = data(5_000)
    on_gpu = joint(some, "cuda")
    assert on_gpu.digest() == joint(some).digest()
    on_gpu.merge(joint(some))
    assert on_gpu.digest() == add(joint(some), some).digest()


# solving


def lda(features: NDArray[np.int8], classes: Sequence[int]) -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr").fit(features.astype(np.float64), classes)


def solved_choices(features: NDArray[np.int8], classes: Sequence[int], asked: NDArray[np.int8]) -> NDArray[np.intp]:
    statistics = ExactStatistics(features.shape[1])
    for label in range(max(classes) + 1):
        statistics.add_label(str(label))
    statistics.add(features, classes)
    weights = solve_slda(statistics, shrinkage=1e-6, priors=True)
    assert weights.active.all()
    chosen: NDArray[np.intp] = (asked.astype(np.float32) @ weights.matrix + weights.bias).argmax(1)
    return chosen


def test_with_little_shrinkage_it_agrees_with_sklearns_lda_on_blobs() -> None:
    values, classes = make_blobs(3_000, n_features=12, centers=6, cluster_std=4.0, random_state=0)
    features = np.clip(np.rint(5 * values), -127, 127).astype(np.int8)
    chosen = solved_choices(features[:2_000], classes[:2_000].tolist(), features[2_000:])
    expected = lda(features[:2_000], classes[:2_000].tolist()).predict(features[2_000:].astype(np.float64))
    assert (chosen == expected).mean() >= 0.99


def test_with_little_shrinkage_it_agrees_with_sklearns_lda_on_digits() -> None:
    digits = load_digits()
    features = (7 * digits.data).astype(np.int8)
    features = features[:, features.std(0) > 3]  # sklearn has no ridge: a pixel that never changes would be singular
    classes = digits.target.tolist()
    chosen = solved_choices(features[:1_200], classes[:1_200], features[1_200:])
    expected = lda(features[:1_200], classes[:1_200]).predict(features[1_200:].astype(np.float64))
    assert (chosen == expected).mean() >= 0.98


def test_one_example_per_class_is_enough_to_choose_the_nearest_mean() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(-40, 41, (5, 384)).astype(np.int8)
    statistics = ExactStatistics(384)
    statistics.add(features, [statistics.add_label(label) for label in "abcde"])
    weights = solve_slda(statistics, 2.5, priors=True)
    noisy = features + rng.integers(-15, 16, (5, 384))
    assert (noisy.astype(np.float32) @ weights.matrix + weights.bias).argmax(1).tolist() == [0, 1, 2, 3, 4]


def test_a_label_that_was_only_ever_wrong_is_not_active() -> None:
    statistics = ExactStatistics(4)
    rows = np.array([[9, 0, 0, 0], [0, 9, 0, 0]], np.int8)
    statistics.add(rows[:1], [statistics.add_label("right")])
    statistics.add(rows[1:], [statistics.add_label("wrong")], negative=True)
    assert solve_slda(statistics, 0.5, priors=True).active.tolist() == [True, False]


@pytest.mark.parametrize("value", [0, 1, 127])
def test_constant_features_still_give_finite_weights(value: int) -> None:
    statistics = ExactStatistics(8)
    classes = [statistics.add_label(label) for label in "ab"] * 20
    statistics.add(np.full((40, 8), value, np.int8), classes)
    weights = solve_slda(statistics, 0.5, priors=True)
    assert np.isfinite(weights.matrix).all() and np.isfinite(weights.bias).all()


def test_a_punishment_lowers_the_score_of_what_was_punished() -> None:
    some = data(200)
    positives = Data(some.features, some.classes, [False] * 200)
    before = solve_slda(joint(positives), 0.5, priors=True)
    punished = joint(positives)
    punished.add(some.features[:1], [0], negative=True)
    after = solve_slda(punished, 0.5, priors=True)
    asked = some.features[0].astype(np.float32)
    assert asked @ after.matrix[:, 0] + after.bias[0] < asked @ before.matrix[:, 0] + before.bias[0]
