"""Logistic regression: it learns in one pass, follows drift and adapts faster after a drift alarm."""

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from online.models import BadExample, Example
from online.models.logistic import Logistic
from tests.models.relabelled import CHANGED_AT, WIDTH, count_right, learn_and_tell, relabelled
from tests.models.synthetic import row

Points = NDArray[np.float64]


def logistic(size: int = 2, **options: object) -> Logistic:
    return Logistic({"input": "vector", "size": size, **options})


def labelled(points: Points, labels: NDArray[np.bool_]) -> list[Example]:
    rows = enumerate(zip(points, labels.tolist(), strict=True), 1)
    return [Example(offset, "label", point.tobytes(), str(label)) for offset, (point, label) in rows]


def prequential_accuracy(model: Logistic, examples: list[Example]) -> float:
    """The share of right answers, each given before its example is learned."""
    score = 0
    for example in examples:
        score += model.predict([example.features])[0].choice == example.label
        model.learn([example])
    return score / len(examples)


def points(count: int, seed: int = 0, size: int = 2) -> Points:
    return np.random.default_rng(seed).uniform(-1, 1, (count, size))


def test_one_pass_is_enough_for_a_linear_rule() -> None:
    x = points(400)
    model = logistic()
    prequential_accuracy(model, labelled(x[:200], x[:200].sum(1) > 0))
    assert prequential_accuracy(model, labelled(x[200:], x[200:].sum(1) > 0)) > 0.95


def test_it_follows_a_linear_rule_that_changes() -> None:
    x = points(2_000)
    changed = np.arange(2_000) >= 1_000
    labels = np.where(changed, x[:, 0] < 0, x[:, 0] > 0)
    static, tracking = logistic(drift=0.0), logistic(drift=1e-3, prior=10.0)
    scores = [prequential_accuracy(model, labelled(x, labels)) for model in (static, tracking)]
    assert scores[1] > 0.95
    assert scores[1] > scores[0] + 0.02


def test_a_drift_alarm_changes_no_answer_at_once_and_speeds_up_learning() -> None:
    x = points(800)
    before, after = labelled(x[:600], x[:600, 0] > 0), labelled(x[600:], x[600:, 0] < 0)
    alarmed, not_alarmed = logistic(), logistic()
    for model in (alarmed, not_alarmed):
        model.learn(before)
    alarmed.drifted(None, 600)
    inputs = [example.features for example in after]
    assert alarmed.predict(inputs) == not_alarmed.predict(inputs)
    assert prequential_accuracy(alarmed, after) > prequential_accuracy(not_alarmed, after) + 0.1


def test_drift_of_one_class_leaves_the_variance_of_the_others_unchanged() -> None:
    x = points(300)
    model = logistic()
    model.learn(labelled(x, x[:, 0] > 0))
    before = model.covariance.copy()
    model.drifted("True", 200)
    index = model.labels.index("True")
    assert np.trace(model.covariance[index]) > np.trace(before[index])
    assert np.array_equal(np.delete(model.covariance, index, 0), np.delete(before, index, 0))


def test_waves_separate_what_no_line_separates() -> None:
    x = points(1_500)
    circle = labelled(x, np.hypot(x[:, 0], x[:, 1]) < 0.75)
    assert (
        prequential_accuracy(logistic(waves=64, frequency=2.0), circle) > prequential_accuracy(logistic(), circle) + 0.2
    )


def test_a_reward_of_0_lowers_the_score_of_its_class() -> None:
    x = points(300)
    model = logistic()
    model.learn(labelled(x, x[:, 0] > 0))
    point = np.array([0.05, 0.0]).tobytes()
    before = {candidate.id: candidate.score for candidate in model.predict([point])[0].candidates}
    for offset in range(10):
        model.learn([Example(1_000 + offset, "reward", point, "True", reward=0.0)])
    after = {candidate.id: candidate.score for candidate in model.predict([point])[0].candidates}
    assert after["True"] < before["True"]


def test_no_variance_exceeds_the_prior() -> None:
    """The variance of a direction without data does not grow without bound."""
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


def test_more_classes_than_declared_are_refused() -> None:
    model = logistic(max_labels=2)
    model.learn(labelled(points(20), points(20)[:, 0] > 0))
    with pytest.raises(BadExample, match="more than 2 classes"):
        model.learn([Example(99, "label", np.zeros(2).tobytes(), "third")])


@pytest.mark.parametrize("options", [{"drift": 1.0}, {"prior": 0.0}, {"waves": -1}, {"size": 0}, {"input": "text"}])
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="option"):
        Logistic({"input": "vector", "size": 2, **options})


def test_weights_are_given_to_the_classes_that_only_changed_their_names() -> None:
    examples = relabelled(CHANGED_AT + 40)
    model, watched = logistic(size=WIDTH), logistic(size=WIDTH)
    learn_and_tell(model, examples)
    watched.learn(examples)
    asked = relabelled(CHANGED_AT + 140)[CHANGED_AT + 40 :]
    assert count_right(model, asked) >= 90 > 60 > count_right(watched, asked)


@pytest.mark.parametrize("cut", [10, 25, 60])
def test_the_search_for_changed_names_survives_a_restart(cut: int) -> None:
    examples = relabelled(CHANGED_AT + 80)
    expected, resumed = logistic(size=WIDTH), logistic(size=WIDTH)
    learn_and_tell(expected, examples)
    first = learn_and_tell(logistic(size=WIDTH), examples[: CHANGED_AT + cut], batch=9)
    resumed.restore(first.state())
    resumed.learn(examples[CHANGED_AT + cut :])
    assert resumed.fingerprint() == expected.fingerprint()
    assert save(dict(resumed.state()["belief"].tensors)) == save(dict(expected.state()["belief"].tensors))


def test_a_false_alarm_gives_no_weights_away() -> None:
    still = relabelled(CHANGED_AT - 1)
    model = logistic(size=WIDTH)
    model.learn(still[:290])
    model.drifted(None, 285)
    model.learn(still[290:440])
    assert model.translation is not None and not model.translation.won and not model.translation.given
