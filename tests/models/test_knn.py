"""Nearest neighbours: a window that is a set, ranges of its own, votes against."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from online.models import Example, Kind
from online.models.knn import Knn
from tests.models.synthetic import row, tables, vectors

SIZE = 6


def knn(window: int = 5_000, **options: object) -> Knn:
    return Knn({"input": "vector", "size": SIZE, "window": window, **options})


def taught(examples: Sequence[Example], window: int) -> Knn:
    model = knn(window)
    for example in examples:
        model.learn([example])
        model.predict([example.features])  # what it keeps to be fast must follow
    return model


def point(offset: int, numbers: Sequence[float], label: str, reward: float = 1.0) -> Example:
    kind: Kind = "label" if reward >= 0.5 else "reward"
    return Example(offset, kind, np.array(numbers, np.float64).tobytes(), label, reward=reward)


def ask(model: Knn, numbers: Sequence[float]) -> str | None:
    return model.predict([np.array(numbers, np.float64).tobytes()])[0].choice


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_full_window_holds_the_newest_in_whatever_order_they_came(seed: int) -> None:
    examples = vectors(150)
    order = np.random.default_rng(seed).permutation(len(examples))
    shuffled = taught([examples[place] for place in order], window=60)
    straight = taught(examples, window=60)
    assert shuffled.fingerprint() == straight.fingerprint()
    assert shuffled.predict([e.features for e in examples]) == straight.predict([e.features for e in examples])


@pytest.mark.parametrize("window", [20, 60, 400])
def test_a_window_that_moved_answers_like_one_that_never_held_more(window: int) -> None:
    examples = vectors(700)
    fresh = knn(window)
    fresh.learn(examples[-window:])
    asked = [example.features for example in vectors(30, seed=3)]
    assert taught(examples, window).predict(asked) == fresh.predict(asked)


def test_a_table_whose_names_come_and_go_answers_like_a_fresh_one() -> None:
    examples = [
        replace(e, features=row({f"only {e.offset // 50}": 1.0, "x": float(e.offset % 7)})) for e in vectors(200)
    ]
    moved, fresh = Knn({"input": "table", "window": 60}), Knn({"input": "table", "window": 60})
    for example in examples:
        moved.learn([example])
        moved.predict([example.features])
    fresh.learn(examples[-60:])
    asked = [example.features for example in tables(20)]
    assert moved.predict(asked) == fresh.predict(asked)


def test_what_left_the_window_has_no_say() -> None:
    model = knn(window=20)
    model.learn([point(n, [0.0] * SIZE, "old") for n in range(1, 21)])
    model.learn([point(n, [1.0] * SIZE, "new") for n in range(21, 41)])
    answer = model.predict([np.zeros(SIZE).tobytes()])[0]
    assert [candidate.id for candidate in answer.candidates] == ["new"]


def test_a_number_counts_by_its_share_of_the_range() -> None:
    """A column in millions must not drown one in units."""
    model = knn()
    for n in range(40):
        label = "left" if n % 2 else "right"
        model.learn([point(n + 1, [float(n % 2), 1e6 * ((n // 2) % 5), 0, 0, 0, 0], label)])
    assert (ask(model, [0.9, 3.4e6, 0, 0, 0, 0]), ask(model, [0.1, 3.4e6, 0, 0, 0, 0])) == ("left", "right")


def test_numbers_of_any_size_are_compared() -> None:
    model = knn()
    model.learn([point(1, [1.7e308, -1.7e308, 0, 0, 0, 0], "huge"), point(2, [0.0] * SIZE, "small")])
    answer = model.predict([np.full(SIZE, 5e-324).tobytes()])[0]
    assert answer.choice == "small"
    assert np.isfinite(answer.score)


def test_a_neighbour_that_was_wrong_votes_against() -> None:
    model = knn()
    model.learn([point(1, [0.0] * SIZE, "yes"), point(2, [1.0] * SIZE, "no")])
    assert ask(model, [0.1] * SIZE) == "yes"
    model.learn([point(3, [0.1] * SIZE, "yes", reward=0.0)])
    assert ask(model, [0.1] * SIZE) == "no"


def test_a_missing_number_and_an_unknown_category_are_no_trouble() -> None:
    model = Knn({"input": "table"})
    model.learn([Example(1, "label", row({"width": 1.0, "shape": "round"}), "ball")])
    model.learn([Example(2, "label", row({"width": 9.0, "shape": "flat"}), "board")])
    assert model.predict([row({"shape": "round"})])[0].choice == "ball"
    assert model.predict([row({"width": 8.0, "shape": "bent", "colour": "red"})])[0].choice == "board"


def test_names_past_the_limit_are_not_looked_at() -> None:
    model = Knn({"input": "table", "max_features": 1, "window": 8})
    for n in range(20):
        model.learn([Example(n, "label", row({"near": float(n % 2), "other": float(n)}), "ab"[n % 2])])
        assert model.predict([row({"near": float(n % 2), "other": 0.0})])[0].choice == "ab"[n % 2]


def test_a_chunk_that_did_not_change_keeps_its_revision() -> None:
    model = knn()
    model.learn([point(n, [float(n)] * SIZE, "a") for n in range(600)])
    before = {name: part.revision for name, part in model.state().items()}
    model.learn([point(600, [0.0] * SIZE, "a")])
    after = {name: part.revision for name, part in model.state().items()}
    assert after["window-0"] == before["window-0"]
    assert after["window-2"] != before["window-2"]


@pytest.mark.parametrize("options", [{"window": 0}, {"neighbours": 0}, {"size": 0}, {"input": "sound"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="option"):
        Knn({"input": "vector", "size": SIZE, **options})
