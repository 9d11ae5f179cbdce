"""The checks of an example that every model of classes shares."""

import numpy as np
import pytest

from online.models import BadExample
from online.models.example_checks import check_features


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(BadExample, match="numbers that are not finite"):
        check_features(np.array([1.0, np.nan]).tobytes(), "vector", 2)


@pytest.mark.parametrize(
    ("features", "input", "message"),
    [
        (bytes(7), "text", "7 bytes where 384 are expected"),
        (bytes(8), "vector", "8 bytes where 16 are expected"),
        (b"no JSON", "table", "not JSON"),
        (b"[1.0]", "table", "not an object of numbers and texts"),
    ],
)
def test_features_that_no_encoder_writes_are_refused(features: bytes, input: str, message: str) -> None:
    with pytest.raises(BadExample, match=message):
        check_features(features, input, 2)
