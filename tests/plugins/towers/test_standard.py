"""The standardised inputs of a network: predictions do not change the scales, and outliers hardly do."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models.encoders.columns import OVERFLOW_COLUMNS
from online.plugins.towers.standard import OUTLIER, TRUSTED, WIDEST, InputScales
from tests.models.synthetic import row, text


def observe_vectors(values_BD: NDArray[np.float64]) -> InputScales:
    standard = InputScales("vector", values_BD.shape[1], 0)
    for values_D in values_BD:
        standard.observe(values_D.tobytes(), 0)
    return standard


def observe_rows(*rows: Mapping[str, float | str], limit: int = 100) -> InputScales:
    standard = InputScales("table", 0, limit)
    for values in rows:
        standard.observe(row(dict(values)), 0)
    return standard


def scale(standard: InputScales, data: bytes) -> list[float]:
    values: list[float] = standard.scaled(standard.raw([data]), standard.width)[0].tolist()
    return values


def test_the_scale_is_the_mean_and_standard_deviation_of_the_examples() -> None:
    values_BD = np.random.default_rng(0).normal([5, -300], [2, 40], (500, 2))
    standard = observe_vectors(values_BD)
    assert standard.mean == pytest.approx(values_BD.mean(0))
    assert standard.variance == pytest.approx(values_BD.var(0))
    assert scale(standard, np.array([7.0, -300.0]).tobytes()) == pytest.approx([1, 0], abs=0.2)


def test_a_constant_is_scaled_to_zero_until_it_varies() -> None:
    standard = observe_vectors(np.full((100, 1), 3.0))
    assert scale(standard, np.array([4.0]).tobytes()) == [0]
    standard.observe(np.array([4.0]).tobytes(), 0)
    assert scale(standard, np.array([4.0]).tobytes())[0] > 1


def test_a_scaled_number_is_clipped() -> None:
    standard = observe_vectors(np.random.default_rng(0).normal(size=(50, 1)))
    assert scale(standard, np.array([1e300]).tobytes()) == [WIDEST]


def test_one_outlier_has_a_bounded_effect_on_a_scale() -> None:
    standard = observe_vectors(np.random.default_rng(0).normal(size=(TRUSTED + 70, 1)))
    before = float(standard.variance[0])
    standard.observe(np.array([1e300]).tobytes(), 0)
    assert standard.variance[0] <= (1 + OUTLIER**2 / (TRUSTED + 70)) * before


@pytest.mark.long
def test_a_scale_follows_a_stream_that_drifts() -> None:
    standard = observe_vectors(np.concatenate([np.zeros((30_000, 1)), np.full((30_000, 1), 8.0)]))
    assert standard.mean[0] > 7


def test_missing_values_and_unknown_names_are_zero() -> None:
    rows: list[dict[str, float | str]] = [{"width": float(n), "shape": "round"} for n in range(9)]
    standard = observe_rows(*rows)
    assert scale(standard, row({})) == [0, 0]
    assert scale(standard, row({"height": 3.0, "shape": "square"})) == [0, 0]
    assert scale(standard, row({"shape": "round"}))[standard.columns["shape=round"]] == 1


def test_a_name_with_both_numbers_and_texts_has_two_columns() -> None:
    assert list(observe_rows({"size": 3.0}, {"size": "large"}).columns) == ["size", "size=large"]


def test_names_beyond_the_limit_share_the_overflow_columns() -> None:
    standard = observe_rows(*({f"name {n}": float(n)} for n in range(300)), limit=40)
    assert standard.width == 40
    assert sum(name.startswith("overflow-") for name in standard.columns) == OVERFLOW_COLUMNS
    assert standard.raw([row({"name 299": 7.0})])[0][24:].tolist().count(1.0) == 1


def test_earlier_rows_have_no_value_in_a_later_column() -> None:
    standard = observe_rows({"width": 1.0}, {"width": 3.0})
    early_BD = standard.raw([row({"width": 3.0})])
    standard.observe(row({"height": 2.0}), 0)
    assert standard.scaled(early_BD, 4).tolist() == [[1, 0, 0, 0]]


def test_the_scale_of_texts_is_fixed() -> None:
    standard = InputScales("text", 0, 0)
    before = scale(standard, text(0, 1))
    standard.observe(text(1, 1), 0)
    assert scale(standard, text(0, 1)) == before
    assert np.std(before) == pytest.approx(1, abs=0.05)


def test_predicting_changes_no_scale() -> None:
    standard = observe_rows({"width": 1.0}, {"width": 3.0})
    before = {name: tensor.tobytes() for name, tensor in standard.tensors().items()}
    standard.scaled(standard.raw([row({"width": 9.0, "depth": 2.0})]), 4)
    assert {name: tensor.tobytes() for name, tensor in standard.tensors().items()} == before
