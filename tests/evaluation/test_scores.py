"""The figures of a replay against small cases worked out by hand, and against scikit-learn."""

import random

import pytest
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, cohen_kappa_score, f1_score, log_loss

from online.evaluation.scores import MOST_VERSIONS, LabelScore, NumberScore, Said
from online.models import Answer, Candidate
from online.prequential import MOST, Curve
from online.schemas import Event


def answered(choice: str | None, **chances: float) -> Answer:
    ordered = sorted(chances.items(), key=lambda each: -each[1])
    return Answer(choice, tuple(Candidate(label, chance) for label, chance in ordered))


def scored(score: LabelScore, right: str, answer: Answer, **more: object) -> float | None:
    said = Said(answer, 1, score.guesses(), **more)  # type: ignore[arg-type]
    loss = score.add(Event("", "label", label=right), said)
    score.saw(right)
    return loss


def test_accuracy_and_the_baselines_by_hand() -> None:
    score = LabelScore()
    for right, given in (("a", "a"), ("a", "b"), ("b", "b"), ("a", None), ("a", "a")):
        scored(score, right, answered(given))
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
    score = LabelScore()
    for n in range(1_500):
        scored(score, "a", answered("a" if n >= 1_000 else "b"))
    assert score.figures()["windowed_accuracy"] == 0.5


def test_kappa_balanced_accuracy_f1_log_loss_and_brier_are_scikit_learns() -> None:
    draw, score = random.Random(0), LabelScore()
    right, given, chances = list[str](), list[str](), list[list[float]]()
    for _ in range(400):
        truth = draw.choices("abc", (5, 3, 1))[0]
        weights = [draw.random() + (label == truth) for label in "abc"]
        shares = [weight / sum(weights) for weight in weights]
        choice = "abc"[shares.index(max(shares))]
        scored(score, truth, answered(choice, **dict(zip("abc", shares, strict=True))))
        right.append(truth)
        given.append(choice)
        chances.append(shares)
    figures = score.figures()
    assert figures["kappa"] == pytest.approx(cohen_kappa_score(right, given), abs=1e-6)
    assert figures["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(right, given), abs=1e-6)
    assert figures["macro_f1"] == pytest.approx(f1_score(right, given, average="macro"), abs=1e-6)
    assert figures["log_loss"] == pytest.approx(log_loss(right, chances, labels=list("abc")), abs=1e-5)
    assert figures["brier"] == pytest.approx(
        brier_score_loss(right, chances, labels=list("abc"), scale_by_half=False), abs=1e-5
    )


def test_chances_that_come_true_are_calibrated_and_boasts_are_not() -> None:
    honest, boasting = LabelScore(), LabelScore()
    for n in range(1_000):
        right = "a" if n % 10 < 7 else "b"
        scored(honest, right, answered("a", a=0.7, b=0.3))
        scored(boasting, right, answered("a", a=0.99, b=0.01))
    assert honest.figures()["ece"] == pytest.approx(0, abs=1e-6)
    assert boasting.figures()["ece"] == pytest.approx(0.29, abs=1e-6)
    assert honest.details().reliability == [(1_000, 0.7, 0.7)]


def rewarded(score: LabelScore, given: str, reward: float, model: str) -> float | None:
    """The service answered `given` and got a reward for it; the model would have answered `model`."""
    said = Said(answered(model), 1, score.guesses(), served=answered(given))
    return score.add(Event("", "reward", label=given, reward=reward, choice=given), said)


def test_a_thumb_up_judges_everybody_and_a_thumb_down_those_who_would_have_answered_the_same() -> None:
    score = LabelScore()
    losses = [rewarded(score, "x", *rest) for rest in ((1.0, "x"), (1.0, "y"), (0.0, "x"), (0.0, "y"))]
    assert losses == [0.0, 1.0, 1.0, None]
    figures = score.figures()
    assert (figures["judged"], figures["right"]) == (3, 1)
    assert (figures["served_rated"], figures["served_right"]) == (4, 2)


def test_the_frozen_copy_is_judged_beside_the_model() -> None:
    score = LabelScore()
    scored(score, "a", answered("a"), frozen=answered("b"))
    scored(score, "b", answered("b"), frozen=answered("b"))
    assert (score.figures()["accuracy"], score.figures()["frozen_accuracy"]) == (1.0, 0.5)


def test_recall_and_precision_of_each_label() -> None:
    score = LabelScore()
    for right, given in (("a", "a"), ("a", "b"), ("b", "b"), ("c", None)):
        scored(score, right, answered(given))
    assert score.per_label() == {
        "a": {"count": 2, "recall": 0.5, "precision": 1.0},
        "b": {"count": 1, "recall": 1.0, "precision": 0.5},
        "c": {"count": 1, "recall": 0.0, "precision": 0.0},
    }


def test_what_versions_served_is_counted_in_bounded_room() -> None:
    score = LabelScore()
    for version in range(3 * MOST_VERSIONS):
        score.served.add(version % 3 == 0, Said(answered("a"), 1, {}, served=answered("a"), version=version, user="u"))
    details = score.details()
    assert len(details.versions) <= MOST_VERSIONS
    assert sum(rated for rated, _ in details.versions.values()) == 3 * MOST_VERSIONS
    assert sum(right for _, right in details.versions.values()) == MOST_VERSIONS
    assert details.users == {"u": 3 * MOST_VERSIONS}


def test_errors_of_numbers_by_hand() -> None:
    score = NumberScore()
    for number, given in ((1.0, None), (3.0, "2.0"), (2.0, "2.0"), (6.0, "2.0")):
        said = Said(Answer(given, (), interval=(1.5, 2.5) if given else None), 1, score.guesses())
        score.add(Event("", "label", label=repr(number)), said)
        score.saw(repr(number))
    figures = score.figures()
    assert figures["judged"] == 3
    assert figures["mae"] == pytest.approx(5 / 3, abs=1e-5)
    assert figures["rmse"] == pytest.approx((17 / 3) ** 0.5, abs=1e-5)
    assert figures["no_change_mae"] == pytest.approx((2 + 1 + 4) / 3, abs=1e-5)
    assert figures["mean_mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-5)
    assert figures["covered"] == pytest.approx(1 / 3, abs=1e-6)


def test_a_curve_keeps_every_example_in_bounded_room() -> None:
    curve, count = Curve(), 100_003
    for n in range(count):
        curve.add({"model": float(n % 2), **({"frozen": 1.0} if n % 10 == 0 else {})})
    stretches = curve.stretches()
    assert MOST / 2 <= len(stretches) <= MOST + 1
    assert sum(stretch.counts["model"] for stretch in stretches) == count
    assert sum(stretch.sums["model"] for stretch in stretches) == count // 2
    assert sum(stretch.sums.get("frozen", 0) for stretch in stretches) == 10_001
    assert [stretch.until for stretch in stretches] == sorted(stretch.until for stretch in stretches)
    assert stretches[-1].until == count
    assert len(curve.stretches(100)) <= 100
