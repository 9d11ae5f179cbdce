"""Logistic regression that tracks: learns in one pass, follows a world that moves, doubts when told to."""

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import BadExample, Example
from online.models.logistic import Logistic
from tests.models.synthetic import row

Points = NDArray[np.float64]


def logistic(size: int = 2, **options: object) -> Logistic:
    return Logistic({"input": "vector", "size": size, **options})


def labelled(points: Points, labels: NDArray[np.bool_]) -> list[Example]:
    rows = enumerate(zip(points, labels.tolist(), strict=True), 1)
    return [Example(offset, "label", point.tobytes(), str(label)) for offset, (point, label) in rows]


def right(model: Logistic, examples: list[Example]) -> float:
    """Tested, then taught."""
    score = 0
    for example in examples:
        score += model.predict([example.features])[0].choice == example.label
        model.learn([example])
    return score / len(examples)


def points(count: int, seed: int = 0, size: int = 2) -> Points:
    return np.random.default_rng(seed).uniform(-1, 1, (count, size))


def test_one_pass_is_enough_for_a_line() -> None:
    x = points(400)
    model = logistic()
    right(model, labelled(x[:200], x[:200].sum(1) > 0))
    assert right(model, labelled(x[200:], x[200:].sum(1) > 0)) > 0.95


def test_it_follows_a_line_that_turns() -> None:
    x = points(2_000)
    turned = np.arange(2_000) >= 1_000
    labels = np.where(turned, x[:, 0] < 0, x[:, 0] > 0)
    still, tracking = logistic(drift=0.0), logistic(drift=1e-3, prior=10.0)
    scores = [right(model, labelled(x, labels)) for model in (still, tracking)]
    assert scores[1] > 0.95
    assert scores[1] > scores[0] + 0.02


def test_told_of_a_drift_it_changes_its_mind_sooner_and_answers_the_same_until_then() -> None:
    x = points(800)
    before, after = labelled(x[:600], x[:600, 0] > 0), labelled(x[600:], x[600:, 0] < 0)
    told, untold = logistic(), logistic()
    for model in (told, untold):
        model.learn(before)
    told.drifted(None, 600)
    asked = [example.features for example in after]
    assert told.predict(asked) == untold.predict(asked)
    assert right(told, after) > right(untold, after) + 0.1


def test_a_drift_of_one_label_leaves_the_others_as_sure_as_they_were() -> None:
    x = points(300)
    model = logistic()
    model.learn(labelled(x, x[:, 0] > 0))
    before = model.covariance.copy()
    model.drifted("True", 200)
    at = model.labels.index("True")
    assert np.trace(model.covariance[at]) > np.trace(before[at])
    assert np.array_equal(np.delete(model.covariance, at, 0), np.delete(before, at, 0))


def test_waves_separate_what_no_line_can() -> None:
    x = points(1_500)
    ring = labelled(x, np.hypot(x[:, 0], x[:, 1]) < 0.75)
    assert right(logistic(waves=64, frequency=2.0), ring) > right(logistic(), ring) + 0.2


def test_a_label_that_was_wrong_is_answered_less() -> None:
    x = points(300)
    model = logistic()
    model.learn(labelled(x, x[:, 0] > 0))
    asked = np.array([0.05, 0.0]).tobytes()
    before = {candidate.id: candidate.score for candidate in model.predict([asked])[0].candidates}
    for offset in range(10):
        model.learn([Example(1_000 + offset, "reward", asked, "True", reward=0.0)])
    after = {candidate.id: candidate.score for candidate in model.predict([asked])[0].candidates}
    assert after["True"] < before["True"]


def test_a_variance_never_exceeds_the_prior() -> None:
    """Directions that are never seen must not wind up."""
    model = logistic(size=3, drift=1e-2, prior=2.0)
    x = points(2_000, size=3)
    x[:, 2] = 0
    model.learn(labelled(x, x[:, 0] > 0))
    assert np.linalg.eigvalsh(model.covariance).max() <= 2.0 + 1e-9
    assert np.linalg.eigvalsh(model.covariance).min() > 0


def test_a_new_column_after_the_warm_up_is_learned() -> None:
    model = Logistic({"input": "table"})
    model.learn([Example(n, "label", row({"x": float(n % 5)}), "ab"[n % 2]) for n in range(300)])
    model.learn([Example(n, "label", row({"x": 1.0, "tag": "ab"[n % 2]}), "ab"[n % 2]) for n in range(300, 400)])
    assert [model.predict([row({"x": 1.0, "tag": tag})])[0].choice for tag in "ab"] == ["a", "b"]


def test_more_labels_than_it_was_told_of_are_refused() -> None:
    model = logistic(max_labels=2)
    model.learn(labelled(points(20), points(20)[:, 0] > 0))
    with pytest.raises(BadExample, match="more than 2 labels"):
        model.learn([Example(99, "label", np.zeros(2).tobytes(), "third")])


@pytest.mark.parametrize("options", [{"drift": 1.0}, {"prior": 0.0}, {"waves": -1}, {"size": 0}, {"input": "text"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="option"):
        Logistic({"input": "vector", "size": 2, **options})
