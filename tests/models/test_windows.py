"""Windows: what a mean rests on, exactly; and that nothing of what was learned depends on them."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example, Options, create
from online.models.classifier import Classifier
from online.models.exact import ExactStatistics
from online.models.windows import LEFT, Windows
from tests.models.synthetic import TOPICS, as_features, text, texts, unit

WIDTH = 8
LABELS = "abc"


class Scene:
    """Sums and windows that learn the same examples."""

    def __init__(self, window: int = 0, reach: int = 0) -> None:
        self.statistics, self.windows = ExactStatistics(WIDTH), Windows(window, reach)
        for label in LABELS:
            self.statistics.add_label(label)

    def add(self, offsets: Sequence[int], times: int = 1) -> "Scene":
        rows = np.array([row_of(offset) for offset in offsets], np.int8).reshape(-1, WIDTH)
        labels = [label_of(offset) for offset in offsets]
        self.statistics.add(rows, [LABELS.index(label) for label in labels], times=times)
        self.windows.add(rows, labels, offsets, times)
        return self

    def cut(self, label: str | None, since: int) -> "Scene":
        self.windows.cut(label, since, self.statistics)
        return self

    def rests_on(self, label: str) -> tuple[int, list[int]]:
        found = self.windows.rested_on(self.statistics)
        counts, sums = found if found is not None else (self.statistics.counts[0], self.statistics.sums[0])
        place = LABELS.index(label)
        return int(counts[place]), sums[place].tolist()

    def same_as(self, other: "Scene") -> bool:
        pairs = zip(self.windows.tensors(WIDTH).values(), other.windows.tensors(WIDTH).values(), strict=True)
        return all(np.array_equal(one, another) for one, another in pairs)


def row_of(offset: int) -> NDArray[np.int8]:
    return np.random.default_rng(offset).integers(-127, 128, WIDTH).astype(np.int8)


def label_of(offset: int) -> str:
    return LABELS[offset % 3]


def those(label: str, start: int, end: int) -> list[int]:
    """Offsets of a label's examples in [start, end)."""
    return [offset for offset in range(start, end) if label_of(offset) == label]


def summed(offsets: Sequence[int]) -> tuple[int, list[int]]:
    total = np.array([row_of(offset) for offset in offsets], np.int64).sum(0)
    return len(offsets), [int(value) for value in total]


ALL = range(1, 301)  # a hundred of each label


def test_without_windows_the_means_rest_on_everything() -> None:
    scene = Scene().add(ALL)
    assert scene.windows.rested_on(scene.statistics) is None
    assert not scene.windows.held


@pytest.mark.parametrize("window", [1, 7, 99])
def test_a_window_rests_on_the_newest_examples_of_each_class(window: int) -> None:
    scene = Scene(window=window).add(ALL)
    for label in LABELS:
        assert scene.rests_on(label) == summed(those(label, 1, 301)[-window:])


def test_a_class_that_has_fewer_than_its_window_rests_on_all_of_them() -> None:
    assert Scene(window=50).add(range(1, 31)).rests_on("a") == summed(those("a", 1, 31))


def test_a_cut_leaves_what_came_since_and_grows_with_what_comes() -> None:
    scene = Scene(reach=32).add(ALL).cut("a", 270)
    assert scene.rests_on("a") == summed(those("a", 270, 301))
    assert scene.rests_on("b") == summed(those("b", 1, 301))
    scene.add(range(301, 900))
    assert scene.rests_on("a") == summed(those("a", 270, 900))


def test_a_class_of_which_nothing_came_since_its_cut_rests_on_all_it_has_until_something_does() -> None:
    scene = Scene(reach=4).add(ALL).cut("a", 301)
    assert scene.rests_on("a") == summed(those("a", 1, 301))
    scene.add(range(301, 304))
    assert scene.rests_on("a") == summed(those("a", 301, 304))


def test_when_all_are_cut_each_keeps_its_newest_few_or_all_that_came_since() -> None:
    lately, long_ago = Scene(reach=64).add(ALL).cut(None, 298), Scene(reach=64).add(ALL).cut(None, 220)
    for label in LABELS:
        assert lately.rests_on(label) == summed(those(label, 1, 301)[-LEFT:])
        assert long_ago.rests_on(label) == summed(those(label, 220, 301))


def test_a_cut_further_back_than_what_is_held_falls_before_the_oldest_of_that() -> None:
    assert Scene(reach=10).add(ALL).cut("a", 5).rests_on("a") == summed(those("a", 1, 301)[-10:])
    assert Scene(reach=200).add(ALL).cut("a", 5).rests_on("a") == summed(those("a", 5, 301))


def test_a_cut_never_moves_back() -> None:
    scene = Scene(reach=64).add(ALL).cut("a", 270).cut("a", 200).cut(None, 1)
    assert scene.rests_on("a") == summed(those("a", 270, 301))
    assert scene.cut("a", 285).rests_on("a") == summed(those("a", 285, 301))


def test_a_cut_before_all_that_was_learned_changes_nothing() -> None:
    assert Scene(reach=64).add(range(100, 131)).cut("a", 50).cut(None, 60).windows.cuts() == 0


def test_a_window_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        Classifier({"input": "text", "window": -1})


def test_a_cut_for_a_class_nobody_knows_changes_nothing() -> None:
    assert Scene(reach=64).add(ALL).cut("zebra", 200).same_as(Scene(reach=64).add(ALL))


def test_a_window_and_a_cut_work_together() -> None:
    scene = Scene(window=10, reach=32).add(ALL).cut("a", 288)
    assert scene.rests_on("a") == summed(those("a", 288, 301))
    assert scene.rests_on("b") == summed(those("b", 1, 301)[-10:])
    assert scene.add(range(301, 400)).rests_on("a") == summed(those("a", 1, 400)[-10:])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_order_and_batches_do_not_matter(seed: int) -> None:
    def cut_in_the_middle(offsets: Sequence[int], batch: int) -> Scene:
        scene = Scene(window=6, reach=20).add(range(1, 101)).cut("a", 80).cut(None, 90)
        for start in range(0, len(offsets), batch):
            scene.add(offsets[start : start + batch])
        return scene

    shuffled = np.random.default_rng(seed).permutation(np.arange(101, 301)).tolist()
    assert cut_in_the_middle(shuffled, 7).same_as(cut_in_the_middle(range(101, 301), 200))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_workers_that_merge_equal_one_that_saw_everything(workers: int) -> None:
    def started() -> Scene:
        scene = Scene(window=6, reach=20)
        scene.windows.restore(Scene(window=6, reach=20).add([1, 2, 3]).cut(None, 2).windows.emptied().tensors(WIDTH))
        return scene

    merged = started()
    for worker in range(workers):
        part = started().add(list(ALL)[worker::workers])
        merged.statistics.merge(part.statistics)
        merged.windows.merge(part.windows)
    assert merged.same_as(started().add(ALL))
    assert merged.rests_on("a") == started().add(ALL).rests_on("a")


def test_workers_whose_windows_are_cut_apart_do_not_merge() -> None:
    with pytest.raises(ValueError, match="'a' are cut at 270 and 280"):
        Scene(reach=20).add(ALL).cut("a", 270).windows.merge(Scene(reach=20).add(ALL).cut("a", 280).windows)


@pytest.mark.parametrize("gone", [[295], [298, 1, 300], list(range(270, 300, 4))], ids=str)
def test_taking_back_leaves_the_windows_of_never_having_seen_it(gone: list[int]) -> None:
    kept = [offset for offset in ALL if offset not in gone]
    scene = Scene(window=10, reach=64).add(ALL).cut("a", 280).add(gone, times=-1)
    never = Scene(window=10, reach=64).add(kept).cut("a", 280)
    for label in LABELS:
        assert scene.rests_on(label) == never.rests_on(label)


def test_a_window_says_when_it_has_no_example_to_spare() -> None:
    scene, mine = Scene(window=10).add(ALL), those("a", 1, 301)
    scene.add(mine[-9:], times=-1)
    assert not scene.windows.exhausted(scene.statistics)
    scene.add(mine[-10:-9], times=-1)
    assert scene.windows.exhausted(scene.statistics)
    assert scene.rests_on("a") == summed(mine[-20:-10])


def test_what_few_examples_a_class_has_are_never_missed() -> None:
    scene = Scene(window=10).add(range(1, 31))
    scene.add(those("a", 1, 31)[2:], times=-1)
    assert not scene.windows.exhausted(scene.statistics)


def test_a_state_is_taken_over_whole() -> None:
    scene, again = Scene(window=6, reach=20).add(ALL).cut("a", 280), Scene(window=6, reach=20)
    again.statistics.merge(scene.statistics)
    again.windows.restore(scene.windows.tensors(WIDTH))
    assert again.same_as(scene)
    assert again.add(range(301, 330)).same_as(scene.add(range(301, 330)))


def test_features_that_appear_later_were_zero_before() -> None:
    scene = Scene(reach=20).add(range(1, 31)).cut("a", 20)
    scene.statistics.widen(WIDTH + 2)
    found = scene.windows.rested_on(scene.statistics)
    assert found is not None
    assert found[1][0].tolist() == [*summed(those("a", 20, 31))[1], 0, 0]


# in a classifier

FORGETS: Options = {"input": "text", "window": 12, "drift_window": 16}


def moved(count: int, start: int) -> list[Example]:
    """Questions about the first topic that now belong to another label."""
    return [Example(start + n, "label", text(0, 5_000 + start + n), TOPICS[1]) for n in range(count)]


def choice(model: Classifier) -> str | None:
    return model.predict([as_features(unit(0))])[0].choice


def test_the_state_hash_is_the_same_with_and_without_windows() -> None:
    plain, forgets = Classifier({"input": "text"}), Classifier(FORGETS)
    for model in (plain, forgets):
        model.learn(texts(200))
    forgets.drifted(None, 150)
    assert forgets.fingerprint() == plain.fingerprint()


def test_a_standing_window_follows_a_label_that_moved() -> None:
    plain, forgets = Classifier({"input": "text"}), Classifier({"input": "text", "window": 12})
    again = [Example(1_500 + n, "label", text(2, 7_000 + n), TOPICS[0]) for n in range(14)]
    for model in (plain, forgets):
        model.learn([*texts(400), *moved(14, 1_000), *again])
    assert choice(plain) == TOPICS[0]
    assert choice(forgets) == TOPICS[1]


def test_a_label_that_is_told_to_have_drifted_rests_on_what_came_since() -> None:
    model = Classifier({"input": "text", "drift_window": 32})
    model.learn([*texts(400), *moved(6, 1_000)])
    assert choice(model) == TOPICS[0]
    model.drifted(TOPICS[1], 1_000)
    model.learn([Example(2_000 + n, "label", text(2, 7_000 + n), TOPICS[0]) for n in range(3)])
    model.drifted(TOPICS[0], 2_000)
    assert choice(model) == TOPICS[1]
    assert model.facts()["shortened_labels"] == 2


def test_without_windows_hearing_of_drift_changes_nothing() -> None:
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


def test_a_cut_told_while_scales_are_still_fitted_holds_afterwards() -> None:
    def told(at: int) -> Classifier:
        model = Classifier({"input": "vector", "size": 2, "drift_window": 200})
        rng = np.random.default_rng(0)
        examples = [Example(n + 1, "label", rng.normal(n % 2, 1, 2).tobytes(), "ab"[n % 2]) for n in range(300)]
        model.learn(examples[:at])
        model.drifted("a", 120)
        model.learn(examples[at:])
        return model

    one, other = told(150), told(300)
    asked = np.zeros(2).tobytes()
    assert one.predict([asked]) == other.predict([asked])


def test_cuts_resume_with_the_model() -> None:
    model = create("classifier", FORGETS)
    model.learn(texts(200))
    model.drifted(TOPICS[2], 180)
    resumed = create("classifier", FORGETS)
    resumed.restore(model.state())
    for each in (model, resumed):
        each.learn(moved(5, 1_000))
        each.drifted(None, 1_002)
    assert resumed.predict([text(2, 3)]) == model.predict([text(2, 3)])


def test_a_classifier_whose_window_is_used_up_asks_for_a_replay() -> None:
    model = Classifier({"input": "text", "window": 12})
    examples = texts(400)
    model.learn(examples)
    mine = [example for example in examples if example.label == TOPICS[0] and example.reward >= 0.5]
    model.unlearn(mine[-11:])
    assert model.subtracts
    model.unlearn(mine[-12:-11])
    assert not model.subtracts
