"""The heads on one set of sums: random features, the choice of the best head, and the outside class."""

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example
from online.models.classifier import Classifier
from online.models.statistics.heads import HEADS, ONE, Head
from online.models.statistics.projection import Projection
from tests.models.synthetic import NAMES, NEWCOMER, as_features, labels_only, row, tables, text, texts, unit, vectors

WIDE = 96  # random features, few for speed
OUTSIDE = {"input": "text", "random_features": WIDE, "outside": "none of these", "abstain_below": 0.5}


def create_head(name: str, random_features: int = WIDE, columns: int = 2) -> Head:
    head = Head(name, Projection(random_features, 0, 6.0), 0.5, True, "cpu")
    head.name_columns([str(index) for index in range(columns)])
    for label in "ab":
        head.statistics.add_class(label)
    return head


def rings(count: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    """Points on two concentric rings, which no line separates."""
    draw = np.random.default_rng(seed)
    outer_N, angle_N = draw.integers(0, 2, count), draw.uniform(0, 2 * np.pi, count)
    radius_N = np.where(outer_N, 100, 40) + draw.normal(0, 8, count)
    x_ND = np.stack([radius_N * np.cos(angle_N), radius_N * np.sin(angle_N)], 1)
    return np.clip(np.rint(x_ND), -127, 127).astype(np.int8), outer_N.astype(np.intp)


def blobs(count: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    draw = np.random.default_rng(seed)
    classes_N = draw.integers(0, 2, count)
    x_ND = draw.normal(0, 25, (count, 2)) + 30 * (2 * classes_N[:, None] - 1)
    return np.clip(np.rint(x_ND), -127, 127).astype(np.int8), classes_N.astype(np.intp)


def learn_and_decide(head: Head, x_ND: NDArray[np.int8], classes_N: NDArray[np.intp]) -> Head:
    """Learn all examples and decide by a quarter of them."""
    features = head.features(x_ND)
    head.add(features, classes_N.tolist())
    some = len(features) // 4
    head.decide(features[:some], classes_N[:some], features[:0])
    return head


def accuracy(head: Head, x_ND: NDArray[np.int8], classes_N: NDArray[np.intp]) -> float:
    return float((head.solve().judge(head.features(x_ND)).chances.argmax(1) == classes_N).mean())


def test_random_features_let_a_linear_head_learn_rings() -> None:
    bare, wide = (learn_and_decide(create_head("rp_ridge", count), *rings(400, 0)) for count in (0, WIDE))
    assert accuracy(bare, *rings(400, 1)) < 0.7
    assert accuracy(wide, *rings(400, 1)) >= 0.97


def test_the_best_head_is_ridge_for_rings() -> None:
    assert learn_and_decide(create_head("best"), *rings(400, 0)).decided.head == "ridge"


def test_the_best_head_is_as_good_as_slda_for_blobs() -> None:
    best, slda = (learn_and_decide(create_head(name), *blobs(400, 0)) for name in ("best", "slda"))
    assert best.decided.head == "slda" or best.decided.loss <= slda.decided.loss
    assert accuracy(best, *blobs(1_000, 1)) >= accuracy(slda, *blobs(1_000, 1)) - 0.01


def test_slda_as_part_of_best_equals_slda_alone() -> None:
    x_ND, classes_N = blobs(100, 0)
    in_best, alone = create_head("best"), create_head("slda")
    for head in (in_best, alone):
        head.add(head.features(x_ND), classes_N.tolist())
    np.testing.assert_array_equal(in_best.solve().weights.matrix, alone.solve().weights.matrix)
    np.testing.assert_array_equal(in_best.solve().weights.bias, alone.solve().weights.bias)


def test_ridge_has_a_constant_feature_first() -> None:
    x_ND, _ = blobs(5, 0)
    features = create_head("ridge", random_features=0).features(x_ND)
    np.testing.assert_array_equal(features[:, 0], ONE)
    np.testing.assert_array_equal(features[:, 1:], x_ND)


def test_a_decision_leaves_the_sums_unchanged() -> None:
    one, other = create_head("best"), create_head("best")
    x_ND, classes_N = rings(400, 0)
    other.add(other.features(x_ND), classes_N.tolist())
    assert learn_and_decide(one, x_ND, classes_N).statistics.digest() == other.statistics.digest()


@pytest.mark.parametrize("name", HEADS)
def test_a_decision_improves_the_calibration(name: str) -> None:
    before, after = create_head(name), learn_and_decide(create_head(name), *blobs(400, 0))
    x_ND, classes_N = blobs(400, 0)
    before.add(before.features(x_ND), classes_N.tolist())
    inputs_ND, truth_N = blobs(2_000, 1)

    def gap(head: Head) -> float:
        chances = head.solve().judge(head.features(inputs_ND)).chances
        return abs(float(chances.max(1).mean() - (chances.argmax(1) == truth_N).mean()))

    assert gap(after) <= max(0.03, gap(before))


# through the classifier


def xor(count: int, seed: int) -> list[Example]:
    """Same signs or different signs: a rule about two numbers together, which no bump on either can follow."""
    values = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    labels = ["same" if x * y > 0 else "different" for x, y in values]
    return [Example(n, "label", v.tobytes(), label) for n, (v, label) in enumerate(zip(values, labels, strict=True))]


@pytest.mark.parametrize(("head", "low", "high"), [("slda", 0.3, 0.75), ("best", 0.92, 1.0)])
def test_a_rule_about_two_numbers_needs_random_features(head: str, low: float, high: float) -> None:
    model = Classifier({"input": "vector", "size": 2, "scale": 1.0, "head": head, "random_features": 256})
    model.learn(xor(800, 0))
    test = xor(400, 1)
    answers = model.predict([example.features for example in test])
    share = np.mean([answer.choice == example.label for answer, example in zip(answers, test, strict=True)])
    assert low <= share <= high


@pytest.mark.few(4)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_decisions_do_not_depend_on_batches(head: str, batch: int) -> None:
    examples = labels_only(texts(200))
    model, other = (Classifier({"input": "text", "head": head, "random_features": WIDE}) for _ in range(2))
    model.learn(examples)
    for start in range(0, len(examples), batch):
        other.learn(examples[start : start + batch])
        other.predict([examples[0].features])
    assert other.head.decided == model.head.decided
    assert model.head.decided.at_count > 0


@pytest.mark.parametrize("head", HEADS)
def test_a_table_with_late_columns_resumes_unchanged(head: str) -> None:
    options = {"input": "table", "head": head, "random_features": WIDE}
    model, resumed, serving = (Classifier(options) for _ in range(3))
    model.learn(tables(300))
    model.learn([Example(n, "label", row({"length": n % 7.0, "depth": n % 5.0}), "late") for n in range(1_000, 1_040)])
    resumed.restore(model.state())
    serving.restore(model.state(serving_only=True))
    more = tables(60, seed=1)
    inputs = [example.features for example in more]
    assert serving.predict(inputs) == model.predict(inputs)
    for each in (model, resumed):
        each.learn([Example(2_000 + n, "label", example.features, example.label) for n, example in enumerate(more)])
    assert resumed.fingerprint() == model.fingerprint()


# the outside class


def outsiders(count: int, seed: int) -> list[Example]:
    """Texts near the mean of all topics."""
    draw = np.random.default_rng(seed)
    centre = sum((unit(topic) for topic in range(4)), np.zeros(384))
    noise = draw.normal(0, 1 / np.sqrt(384), (count, 384))
    return [
        Example(5_000 + 1_000 * seed + n, "label", as_features(0.4 * centre + v), "none of these")
        for n, v in enumerate(noise)
    ]


def train_with_outsiders(head: str) -> Classifier:
    model = Classifier({**OUTSIDE, "head": head})
    known = labels_only(texts(300))
    model.learn([*known[:100], *outsiders(100, 0), *known[100:]])
    return model


@pytest.mark.parametrize("head", HEADS)
def test_the_outside_class_is_never_answered(head: str) -> None:
    model = train_with_outsiders(head)
    for answer in model.predict([example.features for example in [*outsiders(50, 1), *texts(50, seed=1)]]):
        assert answer.choice in (None, *NAMES)
        assert "none of these" not in [candidate.id for candidate in answer.candidates]


@pytest.mark.parametrize("head", HEADS)
def test_the_model_abstains_more_often_on_outsiders(head: str) -> None:
    model = train_with_outsiders(head)
    outside, known = (
        np.mean([answer.abstained for answer in model.predict([example.features for example in examples])])
        for examples in (outsiders(100, 1), labels_only(texts(100, seed=1)))
    )
    assert outside >= 0.8 and known <= 0.2


def test_examples_of_the_outside_class_change_no_sums() -> None:
    with_outsiders, without = train_with_outsiders("slda"), Classifier({**OUTSIDE, "head": "slda"})
    without.learn(labels_only(texts(300)))
    assert with_outsiders.statistics.digest() == without.statistics.digest()
    assert with_outsiders.fingerprint() != without.fingerprint()


def test_examples_of_the_outside_class_can_be_unlearned() -> None:
    model, without = train_with_outsiders("slda"), Classifier({**OUTSIDE, "head": "slda"})
    without.learn(labels_only(texts(300)))
    model.unlearn(outsiders(100, 0))
    assert model.fingerprint() == without.fingerprint()
    assert not len(model.outside)


def test_a_model_with_examples_of_the_outside_class_alone_has_no_answer() -> None:
    model = Classifier({**OUTSIDE, "head": "best"})
    model.learn(outsiders(50, 0))
    assert model.predict([text(0)])[0].choice is None


@pytest.mark.parametrize("head", HEADS)
def test_a_new_class_is_answered_after_one_example(head: str) -> None:
    model = Classifier({"input": "text", "head": head, "random_features": WIDE, "priors": False})
    model.learn(labels_only(texts(150)))
    model.predict([text(0)])
    model.learn([Example(1_000, "label", text(4), NEWCOMER)])
    assert model.predict([text(4)])[0].choice == NEWCOMER


# options


def test_random_features_of_one_seed_are_not_those_of_another() -> None:
    def digest(seed: int) -> str:
        model = Classifier({"input": "text", "head": "rp_ridge", "random_features": WIDE, "seed": seed})
        model.learn(texts(50))
        return hashlib.sha256(model.statistics.digest()).hexdigest()

    assert digest(0) == digest(0) != digest(1)


def test_rp_ridge_without_random_features_is_ridge() -> None:
    examples = vectors(300)
    options = {"input": "vector", "size": 6, "scale": 4.0}
    bare, ridge = (Classifier({**options, "head": name, "random_features": 0}) for name in ("rp_ridge", "ridge"))
    for model in (bare, ridge):
        model.learn(examples)
    assert bare.predict([examples[0].features]) == ridge.predict([examples[0].features])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "tree"}, "option 'head' must be one of slda, ridge, rp_ridge, best, not 'tree'"),
        ({"head": 3}, "option 'head' must be str, not 3"),
        ({"random_features": 1.5}, "option 'random_features' must be int, not 1.5"),
        ({"seed": "now"}, "option 'seed' must be int, not 'now'"),
        ({"outside": None}, "option 'outside' must be str, not None"),
        ({"abstain_below": "often"}, "option 'abstain_below' must be float, not 'often'"),
        ({"random": 5}, "unknown option 'random'"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Classifier({"input": "text", **options})
