"""Checks of examples that all classifiers share."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from online.models.contract import BadExample, Example
from online.models.encoders.text import TEXT_WIDTH
from online.models.encoders.values import read_row

LABELLED = ("label", "reward")  # kinds of examples


def check_all(examples: Sequence[Example], learner: str, input: str, size: int) -> None:
    """Raise BadExample for the first of several examples that is wrong, as `check` does.

    Vectors are checked together first, in a fraction of the time, and one by one only where there is a fault.
    """
    if input != "vector" or not are_sound_vectors(examples, size):
        for example in examples:
            check(example, learner, input, size)


def are_sound_vectors(examples: Sequence[Example], size: int) -> bool:
    """Return whether all are labelled vectors of finite numbers. Of one example `check_features` knows more quickly."""
    if len(examples) < 2 or any(len(example.features) != 8 * size for example in examples):
        return False
    labelled = all(example.label and example.kind in LABELLED for example in examples)
    return labelled and bool(np.isfinite(np.frombuffer(b"".join(example.features for example in examples))).all())


def check(example: Example, learner: str, input: str, size: int) -> None:
    """Raise BadExample that says what is wrong.

    learner: the model's name for the message. input: text, vector or table. size: length of a vector.
    """
    if example.kind not in LABELLED:
        raise BadExample(f"a {learner} learns labels and rewards, not a {example.kind}")
    if not example.label:
        raise BadExample("there is no class to learn: the prediction it refers to had none")
    check_features(example.features, input, size)


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
