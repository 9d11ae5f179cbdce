"""Figures about the answers of a classifier."""

from typing import Any

import numpy as np
import pytest

from online.scoring.class_score import compute_agreement
from tests.support import first_of


@pytest.mark.parametrize("seed", first_of(range(20)))
def test_agreement_is_what_river_computes(seed: int) -> None:
    from river import metrics

    draw = np.random.default_rng(seed)
    classes: list[str | None] = [*"abcde"[: 1 + seed % 5], None]
    confusion = {
        (truth, choice): int(count)
        for truth in classes[:-1]
        for choice in classes
        if truth is not None and (count := draw.integers(0, 1 + seed)) > 0
    }
    matrix = metrics.ConfusionMatrix()
    for pair, times in confusion.items():
        matrix.update(*pair, times)
    expected: list[Any] = [metrics.CohenKappa(matrix), metrics.BalancedAccuracy(matrix), metrics.MacroF1(matrix)]
    values = [round(float(each.get()), 6) if confusion else None for each in expected]
    assert [*compute_agreement(confusion).values()] == values
