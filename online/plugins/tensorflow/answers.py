"""Answers in TensorFlow Serving's JSON, byte for byte: spaces, the shortest float32, NaN as a number."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from online.models import Answer
from online.plugins.tensorflow.tensor_signatures import Tensors, rank_candidates, regression_values


def write_rows(outputs: Tensors) -> bytes:
    """`predictions`: a value for each instance where there is one output, otherwise an object for each."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"predictions": ' + _write_array(array) + b"}"
    count = len(next(iter(outputs.values())))
    rows = (_write_object({name: array[at] for name, array in outputs.items()}) for at in range(count))
    return b'{"predictions": [' + b", ".join(rows) + b"]}"


def write_columns(outputs: Tensors) -> bytes:
    """`outputs`: a tensor where there is one output, otherwise an object of tensors."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"outputs": ' + _write_array(array) + b"}"
    return b'{"outputs": ' + _write_object(outputs) + b"}"


def write_classifications(answers: Sequence[Answer]) -> bytes:
    """`results` of classify: for each example its [class, score] pairs, best first."""
    return b'{"results": [' + b", ".join(map(_write_pairs, answers)) + b"]}"


def _write_pairs(answer: Answer) -> bytes:
    pairs = (b"[" + orjson.dumps(name) + b", " + write_number(score) + b"]" for name, score in rank_candidates(answer))
    return b"[" + b", ".join(pairs) + b"]"


def write_regressions(answers: Sequence[Answer]) -> bytes:
    """`results` of regress: a number for each example."""
    return b'{"results": ' + _write_array(regression_values(answers)) + b"}"


def _write_object(arrays: Mapping[str, object]) -> bytes:
    return b"{" + b", ".join(orjson.dumps(name) + b": " + _write_array(each) for name, each in arrays.items()) + b"}"


def _write_array(array: Any) -> bytes:
    """Return an array, or one element of it."""
    if isinstance(array, np.ndarray):
        return b"[" + b", ".join(map(_write_array, array)) + b"]"
    return orjson.dumps(array) if isinstance(array, str) else write_number(array)


def write_number(value: float) -> bytes:
    """Return a float32 in its shortest form: 0.2, 1.0, NaN, Infinity."""
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        return b"NaN" if np.isnan(number) else b"Infinity" if number > 0 else b"-Infinity"
    return str(number).encode()
