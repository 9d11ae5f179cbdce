"""What a network reads: scaled as far as is known, the same whatever was asked, and not spoiled by one number."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models.encoder import OVERFLOW_COLUMNS
from online.models.standard import OUTLIER, TRUSTED, WIDEST, Standard
from tests.models.synthetic import row, text


def vectors(values_BD: NDArray[np.float64]) -> Standard:
    standard = Standard("vector", values_BD.shape[1], 0)
    for values_D in values_BD:
        standard.see(values_D.tobytes())
    return standard


def table(*rows: Mapping[str, float | str], limit: int = 100) -> Standard:
    standard = Standard("table", 0, limit)
    for each in rows:
        standard.see(row(dict(each)))
    return standard


def scaled(standard: Standard, data: bytes) -> list[float]:
    values: list[float] = standard.scaled(standard.raw([data]), standard.width)[0].tolist()
    return values


def test_the_scale_is_the_mean_and_the_deviation_of_what_came() -> None:
    values_BD = np.random.default_rng(0).normal([5, -300], [2, 40], (500, 2))
    standard = vectors(values_BD)
    assert standard.mean == pytest.approx(values_BD.mean(0))
    assert standard.variance == pytest.approx(values_BD.var(0))
    assert scaled(standard, np.array([7.0, -300.0]).tobytes()) == pytest.approx([1, 0], abs=0.2)


def test_a_constant_says_nothing_until_it_varies() -> None:
    standard = vectors(np.full((100, 1), 3.0))
    assert scaled(standard, np.array([4.0]).tobytes()) == [0]
    standard.see(np.array([4.0]).tobytes())
    assert scaled(standard, np.array([4.0]).tobytes())[0] > 1


def test_no_number_is_scaled_beyond_the_widest() -> None:
    standard = vectors(np.random.default_rng(0).normal(size=(50, 1)))
    assert scaled(standard, np.array([1e300]).tobytes()) == [WIDEST]


def test_one_number_moves_a_scale_only_so_far() -> None:
    standard = vectors(np.random.default_rng(0).normal(size=(TRUSTED + 70, 1)))
    before = float(standard.variance[0])
    standard.see(np.array([1e300]).tobytes())
    assert standard.variance[0] <= (1 + OUTLIER**2 / (TRUSTED + 70)) * before


def test_a_scale_follows_a_stream_that_moves() -> None:
    standard = vectors(np.concatenate([np.zeros((30_000, 1)), np.full((30_000, 1), 8.0)]))
    assert standard.mean[0] > 7


def test_a_missing_value_and_an_unknown_name_are_zeros() -> None:
    rows: list[dict[str, float | str]] = [{"width": float(n), "shape": "round"} for n in range(9)]
    standard = table(*rows)
    assert scaled(standard, row({})) == [0, 0]
    assert scaled(standard, row({"height": 3.0, "shape": "square"})) == [0, 0]
    assert scaled(standard, row({"shape": "round"}))[standard.columns["shape=round"]] == 1


def test_a_name_that_is_a_number_here_and_a_text_there_has_two_columns() -> None:
    assert list(table({"size": 3.0}, {"size": "large"}).columns) == ["size", "size=large"]


def test_names_past_the_limit_share_a_few_columns() -> None:
    standard = table(*({f"name {n}": float(n)} for n in range(300)), limit=40)
    assert standard.width == 40
    assert sum(name.startswith("overflow-") for name in standard.columns) == OVERFLOW_COLUMNS
    assert standard.raw([row({"name 299": 7.0})])[0][24:].tolist().count(1.0) == 1


def test_rows_from_before_a_column_came_lack_it() -> None:
    standard = table({"width": 1.0}, {"width": 3.0})
    early_BD = standard.raw([row({"width": 3.0})])
    standard.see(row({"height": 2.0}))
    assert standard.scaled(early_BD, 4).tolist() == [[1, 0, 0, 0]]


def test_texts_are_scaled_alike_from_the_first_one_on() -> None:
    standard = Standard("text", 0, 0)
    before = scaled(standard, text(0, 1))
    standard.see(text(1, 1))
    assert scaled(standard, text(0, 1)) == before
    assert np.std(before) == pytest.approx(1, abs=0.05)


def test_asking_changes_no_scale() -> None:
    standard = table({"width": 1.0}, {"width": 3.0})
    before = {name: tensor.tobytes() for name, tensor in standard.tensors().items()}
    standard.scaled(standard.raw([row({"width": 9.0, "depth": 2.0})]), 4)
    assert {name: tensor.tobytes() for name, tensor in standard.tensors().items()} == before
