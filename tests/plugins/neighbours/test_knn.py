"""Nearest neighbours: the window, the distances, and rewards of 0."""

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from online.models import Example, ExampleKind
from online.plugins.neighbours.knn import Knn
from online.plugins.neighbours.neighbor_index import find_smallest
from tests.models.synthetic import row, tables, vectors
from tests.support import first_of

SIZE = 6


def knn(window: int = 5_000, **options: object) -> Knn:
    return Knn({"input": "vector", "size": SIZE, "window": window, **options})


def learn_one_by_one(examples: Sequence[Example], window: int) -> Knn:
    model = knn(window)
    for example in examples:
        model.learn([example])
        model.predict([example.features])  # the cached arrays must be updated too
    return model


def point(offset: int, numbers: Sequence[float], label: str, reward: float = 1.0) -> Example:
    kind: ExampleKind = "label" if reward >= 0.5 else "reward"
    return Example(offset, kind, np.array(numbers, np.float64).tobytes(), label, reward=reward)


def predict_point(model: Knn, numbers: Sequence[float]) -> str | None:
    return model.predict([np.array(numbers, np.float64).tobytes()])[0].choice


@pytest.mark.parametrize("seed", first_of([1, 2, 3]))
def test_a_full_window_holds_the_newest_examples_in_any_order_of_arrival(seed: int) -> None:
    examples = vectors(150)
    order = np.random.default_rng(seed).permutation(len(examples))
    shuffled = learn_one_by_one([examples[index] for index in order], window=60)
    in_order = learn_one_by_one(examples, window=60)
    assert shuffled.fingerprint() == in_order.fingerprint()
    assert shuffled.predict([e.features for e in examples]) == in_order.predict([e.features for e in examples])


@pytest.mark.parametrize("window", [20, 60, 400])
def test_a_window_that_moved_answers_like_one_that_learned_only_its_examples(window: int) -> None:
    examples = vectors(700)
    fresh = knn(window)
    fresh.learn(examples[-window:])
    inputs = [example.features for example in vectors(30, seed=3)]
    assert learn_one_by_one(examples, window).predict(inputs) == fresh.predict(inputs)


def test_a_table_whose_columns_came_and_went_answers_like_a_new_one() -> None:
    examples = [
        structs.replace(e, features=row({f"only {e.offset // 50}": 1.0, "x": float(e.offset % 7)}))
        for e in vectors(200)
    ]
    moved, fresh = Knn({"input": "table", "window": 60}), Knn({"input": "table", "window": 60})
    for example in examples:
        moved.learn([example])
        moved.predict([example.features])
    fresh.learn(examples[-60:])
    inputs = [example.features for example in tables(20)]
    assert moved.predict(inputs) == fresh.predict(inputs)


def test_examples_outside_the_window_have_no_effect() -> None:
    model = knn(window=20)
    model.learn([point(n, [0.0] * SIZE, "old") for n in range(1, 21)])
    model.learn([point(n, [1.0] * SIZE, "new") for n in range(21, 41)])
    answer = model.predict([np.zeros(SIZE).tobytes()])[0]
    assert [candidate.id for candidate in answer.candidates] == ["new"]


def test_distances_are_relative_to_the_range_of_a_column() -> None:
    """A column in millions does not outweigh one in units."""
    model = knn()
    for n in range(40):
        label = "left" if n % 2 else "right"
        model.learn([point(n + 1, [float(n % 2), 1e6 * ((n // 2) % 5), 0, 0, 0, 0], label)])
    assert (predict_point(model, [0.9, 3.4e6, 0, 0, 0, 0]), predict_point(model, [0.1, 3.4e6, 0, 0, 0, 0])) == (
        "left",
        "right",
    )


def test_extreme_numbers_give_finite_distances() -> None:
    model = knn()
    model.learn([point(1, [1.7e308, -1.7e308, 0, 0, 0, 0], "huge"), point(2, [0.0] * SIZE, "small")])
    answer = model.predict([np.full(SIZE, 5e-324).tobytes()])[0]
    assert answer.choice == "small"
    assert np.isfinite(answer.score)


def test_a_neighbour_with_a_reward_of_0_votes_against_its_class() -> None:
    model = knn()
    model.learn([point(1, [0.0] * SIZE, "yes"), point(2, [1.0] * SIZE, "no")])
    assert predict_point(model, [0.1] * SIZE) == "yes"
    model.learn([point(3, [0.1] * SIZE, "yes", reward=0.0)])
    assert predict_point(model, [0.1] * SIZE) == "no"


def test_missing_numbers_and_unknown_categories_are_accepted() -> None:
    model = Knn({"input": "table"})
    model.learn([Example(1, "label", row({"width": 1.0, "shape": "round"}), "ball")])
    model.learn([Example(2, "label", row({"width": 9.0, "shape": "flat"}), "board")])
    assert model.predict([row({"shape": "round"})])[0].choice == "ball"
    assert model.predict([row({"width": 8.0, "shape": "bent", "colour": "red"})])[0].choice == "board"


def test_columns_beyond_the_limit_are_ignored() -> None:
    model = Knn({"input": "table", "max_features": 1, "window": 8})
    for n in range(20):
        model.learn([Example(n, "label", row({"near": float(n % 2), "other": float(n)}), "ab"[n % 2])])
        assert model.predict([row({"near": float(n % 2), "other": 0.0})])[0].choice == "ab"[n % 2]


def test_an_unchanged_chunk_keeps_its_revision() -> None:
    model = knn()
    model.learn([point(n, [float(n)] * SIZE, "a") for n in range(600)])
    before = {name: part.revision for name, part in model.state().items()}
    model.learn([point(600, [0.0] * SIZE, "a")])
    after = {name: part.revision for name, part in model.state().items()}
    assert after["window-0"] == before["window-0"]
    assert after["window-2"] != before["window-2"]


@pytest.mark.parametrize("options", [{"window": 0}, {"neighbours": 0}, {"size": 0}, {"input": "sound"}])
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="option"):
        Knn({"input": "vector", "size": SIZE, **options})


def test_of_equally_near_examples_the_newest_are_found() -> None:
    values = np.array([2, 1, 1, 1, 0, 1, 3], np.float32)
    assert find_smallest(values, 3).tolist() == [4, 3, 5]
    assert find_smallest(values, 9).tolist() == [4, 1, 2, 3, 5, 0, 6]
