"""Windows: which examples the mean of a class is computed from, and that the state hash does not depend on them."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example, Options, create
from online.models.classifier import Classifier
from online.models.statistics.exact import ExactStatistics
from online.models.statistics.windows import KEPT_AT_LEAST, Windows
from tests.models.synthetic import TOPICS, as_features, text, texts, unit
from tests.support import first_of

WIDTH = 8
LABELS = "abc"


class Scene:
    """Sums and windows that learn the same examples."""

    def __init__(self, window: int = 0, reach: int = 0) -> None:
        self.statistics, self.windows = ExactStatistics(WIDTH), Windows(window, reach)
        for label in LABELS:
            self.statistics.add_class(label)

    def add(self, offsets: Sequence[int], times: int = 1) -> "Scene":
        rows = np.array([row_of(offset) for offset in offsets], np.int8).reshape(-1, WIDTH)
        labels = [label_of(offset) for offset in offsets]
        self.statistics.add(rows, [LABELS.index(label) for label in labels], times=times)
        self.windows.add(rows, labels, offsets, times)
        return self

    def cut(self, label: str | None, since: int) -> "Scene":
        self.windows.cut(label, since, self.statistics)
        return self

    def mean_sums(self, label: str) -> tuple[int, list[int]]:
        result = self.windows.compute_mean_sums(self.statistics)
        counts, sums = result if result is not None else (self.statistics.counts[0], self.statistics.sums[0])
        index = LABELS.index(label)
        return int(counts[index]), sums[index].tolist()

    def has_same_windows(self, other: "Scene") -> bool:
        pairs = zip(self.windows.tensors(WIDTH).values(), other.windows.tensors(WIDTH).values(), strict=True)
        return all(np.array_equal(one, another) for one, another in pairs)


def row_of(offset: int) -> NDArray[np.int8]:
    return np.random.default_rng(offset).integers(-127, 128, WIDTH).astype(np.int8)


def label_of(offset: int) -> str:
    return LABELS[offset % 3]


def class_offsets(label: str, start: int, end: int) -> list[int]:
    """Offsets of the examples of a class in [start, end)."""
    return [offset for offset in range(start, end) if label_of(offset) == label]


def sum_rows(offsets: Sequence[int]) -> tuple[int, list[int]]:
    total = np.array([row_of(offset) for offset in offsets], np.int64).sum(0)
    return len(offsets), [int(value) for value in total]


ALL = range(1, 301)  # a hundred of each class


def test_without_windows_the_means_include_all_examples() -> None:
    scene = Scene().add(ALL)
    assert scene.windows.compute_mean_sums(scene.statistics) is None
    assert not scene.windows.held


@pytest.mark.parametrize("window", [1, 7, 99])
def test_a_window_holds_the_newest_examples_of_each_class(window: int) -> None:
    scene = Scene(window=window).add(ALL)
    for label in LABELS:
        assert scene.mean_sums(label) == sum_rows(class_offsets(label, 1, 301)[-window:])


def test_a_class_with_fewer_examples_than_its_window_uses_all_of_them() -> None:
    assert Scene(window=50).add(range(1, 31)).mean_sums("a") == sum_rows(class_offsets("a", 1, 31))


def test_a_cut_leaves_the_examples_since_then_and_later_ones() -> None:
    scene = Scene(reach=32).add(ALL).cut("a", 270)
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 270, 301))
    assert scene.mean_sums("b") == sum_rows(class_offsets("b", 1, 301))
    scene.add(range(301, 900))
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 270, 900))


def test_a_class_without_examples_since_its_cut_uses_all_of_its_examples() -> None:
    scene = Scene(reach=4).add(ALL).cut("a", 301)
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 1, 301))
    scene.add(range(301, 304))
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 301, 304))


def test_a_cut_of_all_classes_leaves_each_its_newest_examples_or_all_since_the_cut() -> None:
    recent, early = Scene(reach=64).add(ALL).cut(None, 298), Scene(reach=64).add(ALL).cut(None, 220)
    for label in LABELS:
        assert recent.mean_sums(label) == sum_rows(class_offsets(label, 1, 301)[-KEPT_AT_LEAST:])
        assert early.mean_sums(label) == sum_rows(class_offsets(label, 220, 301))


def test_a_cut_before_the_held_examples_leaves_all_held_examples() -> None:
    assert Scene(reach=10).add(ALL).cut("a", 5).mean_sums("a") == sum_rows(class_offsets("a", 1, 301)[-10:])
    assert Scene(reach=200).add(ALL).cut("a", 5).mean_sums("a") == sum_rows(class_offsets("a", 5, 301))


def test_a_cut_never_moves_back() -> None:
    scene = Scene(reach=64).add(ALL).cut("a", 270).cut("a", 200).cut(None, 1)
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 270, 301))
    assert scene.cut("a", 285).mean_sums("a") == sum_rows(class_offsets("a", 285, 301))


def test_a_cut_before_the_first_example_changes_nothing() -> None:
    assert Scene(reach=64).add(range(100, 131)).cut("a", 50).cut(None, 60).windows.count_cuts() == 0


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="option 'window' must be at least 0, not -1"):
        Classifier({"input": "text", "window": -1})


def test_a_cut_for_an_unknown_class_changes_nothing() -> None:
    assert Scene(reach=64).add(ALL).cut("zebra", 200).has_same_windows(Scene(reach=64).add(ALL))


def test_a_window_and_a_cut_work_together() -> None:
    scene = Scene(window=10, reach=32).add(ALL).cut("a", 288)
    assert scene.mean_sums("a") == sum_rows(class_offsets("a", 288, 301))
    assert scene.mean_sums("b") == sum_rows(class_offsets("b", 1, 301)[-10:])
    assert scene.add(range(301, 400)).mean_sums("a") == sum_rows(class_offsets("a", 1, 400)[-10:])


@pytest.mark.parametrize("seed", first_of([1, 2, 3]))
def test_windows_do_not_depend_on_order_and_batches(seed: int) -> None:
    def cut_in_the_middle(offsets: Sequence[int], batch: int) -> Scene:
        scene = Scene(window=6, reach=20).add(range(1, 101)).cut("a", 80).cut(None, 90)
        for start in range(0, len(offsets), batch):
            scene.add(offsets[start : start + batch])
        return scene

    shuffled = np.random.default_rng(seed).permutation(np.arange(101, 301)).tolist()
    assert cut_in_the_middle(shuffled, 7).has_same_windows(cut_in_the_middle(range(101, 301), 200))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_merged_workers_equal_one_that_learned_everything(workers: int) -> None:
    def start() -> Scene:
        scene = Scene(window=6, reach=20)
        scene.windows.restore(
            Scene(window=6, reach=20).add([1, 2, 3]).cut(None, 2).windows.without_examples().tensors(WIDTH)
        )
        return scene

    merged = start()
    for worker in range(workers):
        worker_scene = start().add(list(ALL)[worker::workers])
        merged.statistics.merge(worker_scene.statistics)
        merged.windows.merge(worker_scene.windows)
    assert merged.has_same_windows(start().add(ALL))
    assert merged.mean_sums("a") == start().add(ALL).mean_sums("a")


def test_workers_with_different_cuts_do_not_merge() -> None:
    with pytest.raises(ValueError, match="'a' begin at 270 and 280"):
        Scene(reach=20).add(ALL).cut("a", 270).windows.merge(Scene(reach=20).add(ALL).cut("a", 280).windows)


@pytest.mark.parametrize("removed", [[295], [298, 1, 300], list(range(270, 300, 4))], ids=str)
def test_unlearning_leaves_the_windows_of_a_model_that_never_learned_the_examples(removed: list[int]) -> None:
    remaining = [offset for offset in ALL if offset not in removed]
    scene = Scene(window=10, reach=64).add(ALL).cut("a", 280).add(removed, times=-1)
    expected = Scene(window=10, reach=64).add(remaining).cut("a", 280)
    for label in LABELS:
        assert scene.mean_sums(label) == expected.mean_sums(label)


def test_a_window_reports_when_it_is_exhausted() -> None:
    scene, offsets = Scene(window=10).add(ALL), class_offsets("a", 1, 301)
    scene.add(offsets[-9:], times=-1)
    assert not scene.windows.exhausted(scene.statistics)
    scene.add(offsets[-10:-9], times=-1)
    assert scene.windows.exhausted(scene.statistics)
    assert scene.mean_sums("a") == sum_rows(offsets[-20:-10])


def test_a_window_with_few_examples_is_never_exhausted() -> None:
    scene = Scene(window=10).add(range(1, 31))
    scene.add(class_offsets("a", 1, 31)[2:], times=-1)
    assert not scene.windows.exhausted(scene.statistics)


def test_a_restored_state_continues_unchanged() -> None:
    scene, restored = Scene(window=6, reach=20).add(ALL).cut("a", 280), Scene(window=6, reach=20)
    restored.statistics.merge(scene.statistics)
    restored.windows.restore(scene.windows.tensors(WIDTH))
    assert restored.has_same_windows(scene)
    assert restored.add(range(301, 330)).has_same_windows(scene.add(range(301, 330)))


def test_a_new_feature_is_zero_in_earlier_examples() -> None:
    scene = Scene(reach=20).add(range(1, 31)).cut("a", 20)
    scene.statistics.widen(WIDTH + 2)
    result = scene.windows.compute_mean_sums(scene.statistics)
    assert result is not None
    assert result[1][0].tolist() == [*sum_rows(class_offsets("a", 20, 31))[1], 0, 0]


# in a classifier

WINDOWED: Options = {"input": "text", "window": 12, "drift_window": 16}


def relabelled(count: int, start: int) -> list[Example]:
    """Questions on the first topic with the label of the second one."""
    return [Example(start + n, "label", text(0, 5_000 + start + n), TOPICS[1]) for n in range(count)]


def choice(model: Classifier) -> str | None:
    return model.predict([as_features(unit(0))])[0].choice


def test_the_state_hash_is_the_same_with_and_without_windows() -> None:
    plain, windowed = Classifier({"input": "text"}), Classifier(WINDOWED)
    for model in (plain, windowed):
        model.learn(texts(200))
    windowed.drifted(None, 150)
    assert windowed.fingerprint() == plain.fingerprint()


def test_a_window_follows_a_class_that_changed() -> None:
    plain, windowed = Classifier({"input": "text"}), Classifier({"input": "text", "window": 12})
    returned = [Example(1_500 + n, "label", text(2, 7_000 + n), TOPICS[0]) for n in range(14)]
    for model in (plain, windowed):
        model.learn([*texts(400), *relabelled(14, 1_000), *returned])
    assert choice(plain) == TOPICS[0]
    assert choice(windowed) == TOPICS[1]


def test_a_class_that_has_drifted_uses_the_examples_since_then() -> None:
    model = Classifier({"input": "text", "drift_window": 32})
    model.learn([*texts(400), *relabelled(6, 1_000)])
    assert choice(model) == TOPICS[0]
    model.drifted(TOPICS[1], 1_000)
    model.learn([Example(2_000 + n, "label", text(2, 7_000 + n), TOPICS[0]) for n in range(3)])
    model.drifted(TOPICS[0], 2_000)
    assert choice(model) == TOPICS[1]
    assert model.facts()["shortened_labels"] == 2


def test_without_windows_a_drift_alarm_changes_nothing() -> None:
    model = Classifier({"input": "text"})
    model.learn(texts(100))
    before = model.predict([as_features(unit(0))])
    model.drifted(None, 50)
    model.drifted(TOPICS[0], 50)
    assert model.predict([as_features(unit(0))]) == before
    assert "shortened_labels" not in model.facts()


@pytest.mark.parametrize("option", ["window", "drift_window"])
def test_a_head_without_means_has_no_windows(option: str) -> None:
    with pytest.raises(ValueError, match="need head 'slda'"):
        Classifier({"input": "text", "head": "ridge", option: 12})


def test_a_cut_during_the_warm_up_is_kept() -> None:
    def learn_with_drift(drift_at: int) -> Classifier:
        model = Classifier({"input": "vector", "size": 2, "drift_window": 200})
        rng = np.random.default_rng(0)
        examples = [Example(n + 1, "label", rng.normal(n % 2, 1, 2).tobytes(), "ab"[n % 2]) for n in range(300)]
        model.learn(examples[:drift_at])
        model.drifted("a", 120)
        model.learn(examples[drift_at:])
        return model

    one, other = learn_with_drift(150), learn_with_drift(300)
    point = np.zeros(2).tobytes()
    assert one.predict([point]) == other.predict([point])


def test_cuts_are_restored_with_the_model() -> None:
    model = create("classifier", WINDOWED)
    model.learn(texts(200))
    model.drifted(TOPICS[2], 180)
    resumed = create("classifier", WINDOWED)
    resumed.restore(model.state())
    for each in (model, resumed):
        each.learn(relabelled(5, 1_000))
        each.drifted(None, 1_002)
    assert resumed.predict([text(2, 3)]) == model.predict([text(2, 3)])


def test_a_classifier_with_an_exhausted_window_cannot_subtract() -> None:
    model = Classifier({"input": "text", "window": 12})
    examples = texts(400)
    model.learn(examples)
    of_topic = [example for example in examples if example.label == TOPICS[0] and example.reward >= 0.5]
    model.unlearn(of_topic[-11:])
    assert model.subtracts
    model.unlearn(of_topic[-12:-11])
    assert not model.subtracts
