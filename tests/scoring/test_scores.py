"""The figures of a replay, compared with values by hand and with scikit-learn."""

import random

import pytest
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, cohen_kappa_score, f1_score, log_loss

from online.models import Answer, Candidate
from online.schemas.events import Event
from online.scoring.class_score import ClassScore
from online.scoring.number_score import NumberScore
from online.scoring.prequential import MAX_SEGMENTS, Curve
from online.scoring.score import MAX_VERSIONS, JudgedOutcomes, PendingOutcome, Score


def create_answer(choice: str | None, **probabilities: float) -> Answer:
    ordered = sorted(probabilities.items(), key=lambda each: -each[1])
    return Answer(choice, tuple(Candidate(label, chance) for label, chance in ordered))


def add_outcome(score: Score, event: Event, outcome: PendingOutcome) -> float | None:
    judged = JudgedOutcomes()
    judged.append(event, outcome)
    return score.add_all(judged)[0]


def score_label(score: ClassScore, expected: str, answer: Answer, **more: object) -> float | None:
    outcome = PendingOutcome(answer, 1, score.guesses(), **more)  # type: ignore[arg-type]
    loss = add_outcome(score, Event("", "label", label=expected), outcome)
    score.observe(expected)
    return loss


def test_accuracy_and_baselines_equal_values_by_hand() -> None:
    score = ClassScore()
    for expected, choice in (("a", "a"), ("a", "b"), ("b", "b"), ("a", None), ("a", "a")):
        score_label(score, expected, create_answer(choice))
    figures = score.figures()
    assert (figures["judged"], figures["right"], figures["accuracy"]) == (5, 3, 0.6)
    assert figures["no_change_accuracy"] == 2 / 5  # the 2nd and the 5th
    assert figures["majority_accuracy"] == 3 / 5  # the 2nd, 4th and 5th
    assert figures["answered"] == 4 / 5
    assert figures["kappa_temporal"] == pytest.approx((0.6 - 0.4) / 0.6, abs=1e-6)
    assert figures["fading_accuracy"] == pytest.approx(
        (1 + 0.999**2 + 0.999**4) / sum(0.999**n for n in range(5)), abs=1e-6
    )


def test_the_windowed_accuracy_is_of_the_last_thousand() -> None:
    score = ClassScore()
    for n in range(1_500):
        score_label(score, "a", create_answer("a" if n >= 1_000 else "b"))
    assert score.figures()["windowed_accuracy"] == 0.5


def test_kappa_balanced_accuracy_f1_log_loss_and_brier_are_scikit_learns() -> None:
    rng, score = random.Random(0), ClassScore()
    expected, choices, probabilities = list[str](), list[str](), list[list[float]]()
    for _ in range(400):
        truth = rng.choices("abc", (5, 3, 1))[0]
        weights = [rng.random() + (label == truth) for label in "abc"]
        shares = [weight / sum(weights) for weight in weights]
        choice = "abc"[shares.index(max(shares))]
        score_label(score, truth, create_answer(choice, **dict(zip("abc", shares, strict=True))))
        expected.append(truth)
        choices.append(choice)
        probabilities.append(shares)
    figures = score.figures()
    assert figures["kappa"] == pytest.approx(cohen_kappa_score(expected, choices), abs=1e-6)
    assert figures["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(expected, choices), abs=1e-6)
    assert figures["macro_f1"] == pytest.approx(f1_score(expected, choices, average="macro"), abs=1e-6)
    assert figures["log_loss"] == pytest.approx(log_loss(expected, probabilities, labels=list("abc")), abs=1e-5)
    assert figures["brier"] == pytest.approx(
        brier_score_loss(expected, probabilities, labels=list("abc"), scale_by_half=False), abs=1e-5
    )


def test_accurate_probabilities_are_calibrated_and_overconfident_ones_are_not() -> None:
    accurate, overconfident = ClassScore(), ClassScore()
    for n in range(1_000):
        expected = "a" if n % 10 < 7 else "b"
        score_label(accurate, expected, create_answer("a", a=0.7, b=0.3))
        score_label(overconfident, expected, create_answer("a", a=0.99, b=0.01))
    assert accurate.figures()["ece"] == pytest.approx(0, abs=1e-6)
    assert overconfident.figures()["ece"] == pytest.approx(0.29, abs=1e-6)
    assert accurate.details().reliability == [(1_000, 0.7, 0.7)]


def score_reward(score: ClassScore, choice: str, reward: float, model: str) -> float | None:
    """Score a reward for the served answer `choice`. model: the answer of the scored model."""
    outcome = PendingOutcome(create_answer(model), 1, score.guesses(), served=create_answer(choice))
    return add_outcome(score, Event("", "reward", label=choice, reward=reward, choice=choice), outcome)


def test_a_reward_of_1_scores_every_answer_and_a_reward_of_0_only_the_same_answer() -> None:
    score = ClassScore()
    losses = [score_reward(score, "x", *rest) for rest in ((1.0, "x"), (1.0, "y"), (0.0, "x"), (0.0, "y"))]
    assert losses == [0.0, 1.0, 1.0, None]
    figures = score.figures()
    assert (figures["judged"], figures["right"]) == (3, 1)
    assert (figures["served_rated"], figures["served_right"]) == (4, 2)


def test_the_temporal_kappa_compares_on_the_same_answers() -> None:
    """A thumb down says that an answer is wrong, and not whether repeating the last class would have been right."""
    score = ClassScore()
    for expected, choice in (("a", "a"), ("a", "b"), ("b", "b"), ("a", "a"), ("a", "a")):
        score_label(score, expected, create_answer(choice))
    before = score.figures()
    for _ in range(5):
        score_reward(score, "c", 0.0, "c")
    after = score.figures()
    assert after["accuracy"] == 4 / 10 and (after["judged"], after["no_change_judged"]) == (10, 5)
    assert after["kappa_temporal"] == before["kappa_temporal"] == pytest.approx((0.8 - 0.4) / 0.6, abs=1e-6)


def test_the_frozen_copy_is_scored_beside_the_model() -> None:
    score = ClassScore()
    score_label(score, "a", create_answer("a"), frozen=create_answer("b"))
    score_label(score, "b", create_answer("b"), frozen=create_answer("b"))
    assert (score.figures()["accuracy"], score.figures()["frozen_accuracy"]) == (1.0, 0.5)


def test_recall_and_precision_of_each_label() -> None:
    score = ClassScore()
    for expected, choice in (("a", "a"), ("a", "b"), ("b", "b"), ("c", None)):
        score_label(score, expected, create_answer(choice))
    assert score.per_label() == {
        "a": {"count": 2, "recall": 0.5, "precision": 1.0},
        "b": {"count": 1, "recall": 1.0, "precision": 0.5},
        "c": {"count": 1, "recall": 0.0, "precision": 0.0},
    }


def test_the_counts_of_versions_have_bounded_memory() -> None:
    score = ClassScore()
    for version in range(3 * MAX_VERSIONS):
        score.served.add(
            version % 3 == 0,
            PendingOutcome(create_answer("a"), 1, {}, served=create_answer("a"), version=version, user="u"),
        )
    details = score.details()
    assert len(details.versions) <= MAX_VERSIONS
    assert sum(rated for rated, _ in details.versions.values()) == 3 * MAX_VERSIONS
    assert sum(right for _, right in details.versions.values()) == MAX_VERSIONS
    assert details.users == {"u": 3 * MAX_VERSIONS}


def test_the_errors_of_numbers_equal_values_by_hand() -> None:
    score = NumberScore()
    for number, choice in ((1.0, None), (3.0, "2.0"), (2.0, "2.0"), (6.0, "2.0")):
        outcome = PendingOutcome(Answer(choice, (), interval=(1.5, 2.5) if choice else None), 1, score.guesses())
        add_outcome(score, Event("", "label", label=repr(number)), outcome)
        score.observe(repr(number))
    figures = score.figures()
    assert figures["judged"] == 3
    assert figures["mae"] == pytest.approx(5 / 3, abs=1e-5)
    assert figures["rmse"] == pytest.approx((17 / 3) ** 0.5, abs=1e-5)
    assert figures["no_change_mae"] == pytest.approx((2 + 1 + 4) / 3, abs=1e-5)
    assert figures["mean_mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-5)
    assert figures["covered"] == pytest.approx(1 / 3, abs=1e-6)


def test_a_curve_counts_every_example_in_bounded_memory() -> None:
    curve, count = Curve(), 100_003
    for n in range(count):
        curve.add({"model": float(n % 2), **({"frozen": 1.0} if n % 10 == 0 else {})})
    segments = curve.segments()
    assert MAX_SEGMENTS / 2 <= len(segments) <= MAX_SEGMENTS + 1
    assert sum(segment.counts["model"] for segment in segments) == count
    assert sum(segment.sums["model"] for segment in segments) == count // 2
    assert sum(segment.sums.get("frozen", 0) for segment in segments) == 10_001
    assert [segment.until for segment in segments] == sorted(segment.until for segment in segments)
    assert segments[-1].until == count
    assert len(curve.segments(100)) <= 100
