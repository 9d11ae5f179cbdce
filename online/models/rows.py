"""What a model that learns labels from texts, vectors or tables' rows asks of an example, whatever it learns with."""

import numpy as np

from online.models import BadExample, Example
from online.models.encoder import TEXT_WIDTH, parse_row


def check(example: Example, learner: str, input: str, size: int) -> None:
    """Raises BadExample with what is wrong. input: text, vector or table; size: numbers in a vector."""
    if example.kind not in ("label", "reward"):
        raise BadExample(f"a {learner} learns labels and rewards, not a {example.kind}")
    if not example.label:
        raise BadExample("there is no label to learn: the answer it refers to had none")
    check_features(example.features, input, size)


def check_features(features: bytes, input: str, size: int) -> None:
    """Raises BadExample for what no encoder of this input writes."""
    if input == "table":
        check_row(features)
        return
    expected = TEXT_WIDTH if input == "text" else 8 * size
    if len(features) != expected:
        raise BadExample(f"features of {len(features)} bytes where {expected} are expected")
    if input == "vector" and not np.isfinite(np.frombuffer(features)).all():
        raise BadExample("numbers that are not finite")


def check_row(features: bytes) -> None:
    try:
        row = parse_row(features)
    except ValueError:
        raise BadExample("features that are not JSON") from None
    if not isinstance(row, dict) or not all(isinstance(value, (float, str)) for value in row.values()):
        raise BadExample("features that are not an object of numbers and texts")
