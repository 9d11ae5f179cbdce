"""The classifier: bumps, scales, columns of tables, classes and rewards of 0."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from online.models import BadExample, Example, ExampleKind, Options
from online.models.classifier import Classifier
from online.models.encoders.columns import OVERFLOW_COLUMNS, Column, Columns
from online.models.inputs import WARM_UP
from tests.models.synthetic import as_features, row, tables, text, texts, unit


def vector_example(
    offset: int, values: Sequence[float] | NDArray[np.float64], label: str, kind: ExampleKind = "label"
) -> Example:
    return Example(offset, kind, np.array(values, np.float64).tobytes(), label)


def row_example(offset: int, values: dict[str, float | str], label: str) -> Example:
    return Example(offset, "label", row(values), label)


def accuracy(model: Classifier, features: list[bytes], labels: list[str]) -> float:
    answers = model.predict(features)
    return float(np.mean([answer.choice == label for answer, label in zip(answers, labels, strict=True)]))


def intervals(count: int, seed: int) -> tuple[NDArray[np.float64], list[str]]:
    """Numbers labelled by whether they are near zero, which no linear rule follows."""
    values = np.random.default_rng(seed).uniform(-1, 1, (count, 1))
    return values, ["inside" if abs(value) < 0.4 else "outside" for value in values[:, 0]]


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_bumps_let_a_linear_head_learn_a_nonlinear_rule(scale: float) -> None:
    model = Classifier({"input": "vector", "size": 1, "scale": scale})
    values, labels = intervals(600, 0)
    model.learn([vector_example(n, v, label) for n, (v, label) in enumerate(zip(values, labels, strict=True))])
    test_values, test_labels = intervals(300, 1)
    assert accuracy(model, [value.tobytes() for value in test_values], test_labels) >= 0.9


def test_a_long_vector_has_no_bumps() -> None:
    assert Classifier({"input": "vector", "size": 64, "scale": 1.0}).inputs.columns.width == 4 * 64
    assert Classifier({"input": "vector", "size": 65, "scale": 1.0}).inputs.columns.width == 65


def test_it_learns_digits_in_one_pass() -> None:
    digits = load_digits()
    rows, labels = digits.data.astype(np.float64), [str(target) for target in digits.target]
    model = Classifier({"input": "vector", "size": 64, "scale": 16.0})
    model.learn([vector_example(n, rows[n], labels[n]) for n in range(1_200)])
    assert accuracy(model, [r.tobytes() for r in rows[1_200:]], labels[1_200:]) >= 0.9


def test_a_probability_does_not_depend_on_the_inputs_that_are_answered_with_it() -> None:
    digits = load_digits()
    rows, labels = digits.data.astype(np.float64), [str(target) for target in digits.target]
    model = Classifier({"input": "vector", "size": 64, "scale": 16.0})
    model.learn([vector_example(n, rows[n], labels[n]) for n in range(800)])
    together = model.predict([values.tobytes() for values in rows[800:1_300]])
    for values, answer in zip(rows[800:1_300], together, strict=True):
        (alone,) = model.predict([values.tobytes()])
        chances = {candidate.id: candidate.score for candidate in alone.candidates}
        assert chances == pytest.approx({each.id: each.score for each in answer.candidates}, abs=1e-9)


def test_classes_that_arrive_one_after_the_other_are_not_forgotten() -> None:
    digits = load_digits()
    rows, labels = digits.data.astype(np.float64), [str(target) for target in digits.target]
    sorted_by_class = sorted(range(1_200), key=lambda n: labels[n])
    one, other = (Classifier({"input": "vector", "size": 64, "scale": 16.0}) for _ in range(2))
    one.learn([vector_example(n, rows[n], labels[n]) for n in sorted_by_class])
    other.learn([vector_example(n, rows[n], labels[n]) for n in range(1_200)])
    assert one.fingerprint() == other.fingerprint()


# scales


@pytest.mark.parametrize("scale", [0.3, 1.0, 16.0, 1e-30, 1e30])
def test_a_declared_scale_is_a_power_of_two_that_fits_int8(scale: float) -> None:
    column = Column.with_scale("x", scale)
    assert 127 / 2 < scale * 2.0**column.exponent <= 127
    assert column.centre == 0


@pytest.mark.parametrize("shift", [0.0, 1.0, -50.0, 1e6])
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e4])
def test_a_fitted_scale_fits_nearly_all_values_into_int8_and_uses_its_range(shift: float, width: float) -> None:
    values = shift + width * np.random.default_rng(0).normal(size=500)
    column = Column.fit("x", values.tolist())
    q = np.rint(np.ldexp(values, column.exponent)) - column.centre
    assert (np.abs(q) <= 64).mean() >= 0.95
    assert np.abs(q).max() >= 32


def test_features_are_the_values_in_units_of_the_scale() -> None:
    columns = Columns(bumps=False, limit=10)
    columns.admit_vectors(np.zeros((0, 2)), 4.0)  # 2^4 is the largest power that keeps 4 * 2^p within 127
    features = columns.vectors(np.array([[1.0, -2.0], [0.53125, 100.0], [-0.03, 0.03]]))
    assert features.tolist() == [[16, -32], [8, 127], [0, 0]]


def test_vectors_and_rows_of_the_same_numbers_have_the_same_features() -> None:
    values = np.random.default_rng(0).normal(0, 2, (50, 3))
    by_name, by_place = Columns(bumps=True, limit=10), Columns(bumps=True, limit=10)
    rows: list[dict[str, float | str]] = [{str(n): float(v) for n, v in enumerate(r)} for r in values]
    by_name.admit(rows, None)
    by_place.admit_vectors(values, None)
    np.testing.assert_array_equal(by_name.features(rows), by_place.vectors(values))


EXTREMES = [1.7e308, -1.7e308, 5e-324, -5e-324, 0.0, 1.0]


@pytest.mark.parametrize("first", EXTREMES)
@pytest.mark.parametrize("second", EXTREMES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_model_with_extreme_numbers_gives_finite_answers(first: float, second: float) -> None:
    vector, table = Classifier({"input": "vector", "size": 1}), Classifier({"input": "table"})
    vector.learn([vector_example(1, [first], "a"), vector_example(2, [second], "b")])
    table.learn([row_example(1, {"x": first}, "a"), row_example(2, {"x": second}, "b")])
    vectors, rows = [np.array([x]).tobytes() for x in EXTREMES], [row({"x": x}) for x in EXTREMES]
    for answers in (vector.predict(vectors), table.predict(rows)):
        assert all(answer.choice in ("a", "b") and math.isfinite(answer.score) for answer in answers)


def test_the_scale_is_fixed_after_the_warm_up_and_numbers_that_leave_it_get_a_further_one() -> None:
    model = Classifier({"input": "vector", "size": 1})
    rng = np.random.default_rng(0)
    model.learn([vector_example(n, rng.normal(size=1), "a") for n in range(WARM_UP)])
    scale = model.inputs.columns.columns[0]
    model.learn([vector_example(WARM_UP + n, 1_000 * rng.normal(size=1), "b") for n in range(100)])
    first, *bands = model.inputs.columns.columns
    assert first == scale
    assert [band.is_band for band in bands] == [True]


# rows


def test_a_new_column_is_learned() -> None:
    model = Classifier({"input": "table"})
    model.learn(tables(300))
    rng = np.random.default_rng(0)
    lengths = rng.normal(0, 1, 400)
    examples = [
        row_example(1_000 + n, {"length": float(v)}, "long" if v > 0 else "short") for n, v in enumerate(lengths)
    ]
    model.learn(examples)
    assert model.predict([row({"length": 1.5})])[0].choice == "long"
    assert model.predict([row({"length": -1.5})])[0].choice == "short"


def test_a_new_category_is_learned() -> None:
    model = Classifier({"input": "table"})
    model.learn(tables(300))
    model.learn([row_example(1_000 + n, {"shape": "star"}, "sky") for n in range(40)])
    assert model.predict([row({"shape": "star"})])[0].choice == "sky"


def test_a_row_of_unknown_columns_is_answered() -> None:
    model = Classifier({"input": "table"})
    model.learn(tables(300))
    assert model.predict([row({"never": 1.0, "heard": "of"}), row({})])[0].choice is not None


@pytest.mark.parametrize("scale", [0.0, 4.0])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_table_has_at_most_max_features_columns(scale: float, at_once: bool) -> None:
    model = Classifier({"input": "table", "max_features": 20, "scale": scale})
    one_row: list[dict[str, float | str]] = [{f"name {n}": float(n % 3) for n in range(300)}]
    many_rows: list[dict[str, float | str]] = [{f"name {n}": "x" if n % 2 else 1.0} for n in range(300)]
    model.learn([row_example(n, values, "ab"[n % 2]) for n, values in enumerate(one_row if at_once else many_rows)])
    model.predict([row({"name 3": 1.0})])
    assert 20 <= len(model.inputs.columns.columns) <= 20 + OVERFLOW_COLUMNS
    assert model.statistics.width == model.inputs.columns.width


def test_columns_beyond_the_limit_share_the_overflow_columns() -> None:
    model = Classifier({"input": "table", "max_features": 2, "scale": 4.0})
    model.learn([row_example(0, {"a": 1.0, "b": 1.0}, "first")])
    model.learn([row_example(n, {"shape": "star" if n % 2 else "moon"}, "odd" if n % 2 else "even") for n in range(40)])
    assert [model.predict([row({"shape": shape})])[0].choice for shape in ("star", "moon")] == ["odd", "even"]


def test_a_full_table_cannot_subtract() -> None:
    model = Classifier({"input": "table", "max_features": 2, "scale": 4.0})
    model.learn([row_example(0, {"a": 1.0}, "x")])
    assert model.subtracts
    model.learn([row_example(1, {"b": 1.0}, "x")])
    assert not model.subtracts


# classes


def test_a_reward_of_0_lowers_the_score_of_its_class() -> None:
    model = Classifier({"input": "text"})
    model.learn(texts(60))
    question = as_features(unit(0) + unit(1))
    before = {candidate.id: candidate.score for candidate in model.predict([question])[0].candidates}
    model.learn([Example(1_000 + n, "reward", question, "mango", reward=0.0) for n in range(3)])
    after = {candidate.id: candidate.score for candidate in model.predict([question])[0].candidates}
    assert after["mango"] < before["mango"] - 0.01


def test_enough_rewards_of_0_change_the_answer() -> None:
    model = Classifier({"input": "vector", "size": 1, "scale": 1.0, "priors": False})
    model.learn([vector_example(n, [float(n % 2) - 0.5], "ab"[n % 2]) for n in range(20)])
    point = np.array([0.02]).tobytes()
    assert model.predict([point])[0].choice == "b"
    model.learn([Example(100 + n, "reward", point, "b", reward=0.0) for n in range(200)])
    assert model.predict([point])[0].choice == "a"


def test_a_class_with_rewards_of_0_alone_is_never_predicted() -> None:
    model = Classifier({"input": "text"})
    model.learn([Example(1, "label", text(0, 1), "mango"), Example(2, "reward", text(1, 1), "melon", reward=0.0)])
    assert [candidate.id for candidate in model.predict([text(1, 1)])[0].candidates] == ["mango"]


def test_with_priors_a_frequent_class_is_preferred() -> None:
    def count_frequent(priors: bool) -> int:
        model = Classifier({"input": "vector", "size": 1, "scale": 4.0, "priors": priors})
        spread = np.linspace(-1.5, 1.5, 10)
        model.learn([vector_example(n, [1 + spread[n % 10]], "often") for n in range(90)])
        model.learn([vector_example(100 + n, [-1 + spread[n]], "seldom") for n in range(10)])
        answers = model.predict([np.array([value]).tobytes() for value in np.linspace(-2, 2, 41)])
        return [answer.choice for answer in answers].count("often")

    assert count_frequent(priors=True) > count_frequent(priors=False)


def test_a_class_beyond_max_labels_is_refused() -> None:
    model = Classifier({"input": "text", "max_labels": 2})
    model.learn([Example(n, "label", text(n), "ab"[n]) for n in range(2)])
    with pytest.raises(BadExample, match=r"more than 2 classes \(option max_labels\)"):
        model.learn([Example(3, "label", text(3), "c")])


def test_a_class_unlearned_during_the_warm_up_makes_room_for_another() -> None:
    model = Classifier({"input": "vector", "size": 1, "max_labels": 2})
    examples = [vector_example(n, [float(n)], "ab"[n]) for n in range(2)]
    model.learn(examples)
    model.predict([np.zeros(1).tobytes()])
    model.unlearn(examples[1:])
    model.learn([vector_example(3, [3.0], "c")])
    assert model.predict([np.full(1, 3.0).tobytes()])[0].choice == "c"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": "sound"}, "option 'input' must be one of text, vector, table, not 'sound'"),
        ({"input": "vector"}, "needs option 'size'"),
        ({"input": "vector", "size": True}, "option 'size' must be int, not True"),
        ({"shrinkage": "much"}, "option 'shrinkage' must be float"),
        ({"shrinkage": -1.0}, "option 'shrinkage' must lie in"),
        ({"abstain_below": 2.0}, "option 'abstain_below' must lie in"),
        ({"random_features": -1}, "option 'random_features' must lie in"),
        ({"max_labels": 0}, "option 'max_labels' must lie in"),
        ({"scale": -1.0}, "option 'scale' must lie in"),
        ({"scale": float("nan")}, "option 'scale' must lie in"),
        ({"max_features": 0}, "option 'max_features' must lie in"),
        ({"head": "rp_ridge", "window": 5}, "need head 'slda'"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Classifier(options)


def test_an_integer_is_accepted_for_a_float_option() -> None:
    assert Classifier({"input": "vector", "size": 2, "scale": 4}).inputs.columns.width == 8


def test_too_few_recent_examples_for_a_comparison_are_refused() -> None:
    options: Options = {"input": "vector", "size": 3, "scale": 4.0}
    with pytest.raises(ValueError, match="'recent' must be 0 or at least 80"):
        Classifier({**options, "recent": 79})
    for count in (0, 80):
        assert Classifier({**options, "recent": count}).adaptation.rows.room == count
