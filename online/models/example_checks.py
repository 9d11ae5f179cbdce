"""Checks of examples that all classifiers share."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from online.models.contract import BadExample, Example
from online.models.encoders.text import TEXT_WIDTH
from online.models.encoders.values import read_row


def check_all(examples: Sequence[Example], learner: str, input: str, size: int) -> None:
    """Check examples as `check` does each; the numbers of all vectors at once, in a tenth of the time."""
    is_checked = input == "vector" and are_vectors([example.features for example in examples], size)
    for example in examples:
        check_lesson(example, learner)
        if not is_checked:
            check_features(example.features, input, size)


def are_vectors(features: Sequence[bytes], size: int) -> bool:
    """Return whether all features are `size` finite numbers."""
    return all(len(each) == 8 * size for each in features) and bool(
        np.isfinite(np.frombuffer(b"".join(features))).all()
    )


def check(example: Example, learner: str, input: str, size: int) -> None:
    """Raise BadExample that says what is wrong.

    learner: the model's name for the message. input: text, vector or table. size: length of a vector.
    """
    check_lesson(example, learner)
    check_features(example.features, input, size)


def check_lesson(example: Example, learner: str) -> None:
    """Raise BadExample for an example that says of no class that it is right or wrong."""
    if example.kind not in ("label", "reward"):
        raise BadExample(f"a {learner} learns labels and rewards, not a {example.kind}")
    if not example.label:
        raise BadExample("there is no class to learn: the prediction it refers to had none")


@lru_cache(maxsize=16)
def check_features(features: bytes, input: str, size: int) -> None:
    """Raise BadExample for features that no encoder of this input produces.

    Cached, because each member of an ensemble asks again.
    """
    if input == "table":
        check_row(features)
        return
    expected = TEXT_WIDTH if input == "text" else 8 * size
    if len(features) != expected:
        raise BadExample(f"features of {len(features)} bytes where {expected} are expected")
    if input == "vector" and not np.isfinite(np.frombuffer(features)).all():
        raise BadExample("numbers that are not finite")


def check_row(features: bytes) -> None:
    """Raise BadExample unless the features are a JSON object of numbers and texts."""
    try:
        row = read_row(features)
    except ValueError:
        raise BadExample("features that are not JSON") from None
    if not isinstance(row, dict) or not all(isinstance(value, (float, str)) for value in row.values()):
        raise BadExample("features that are not an object of numbers and texts")
