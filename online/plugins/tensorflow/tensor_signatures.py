"""The signature of a model: the tensors that it takes and gives, for protocols that speak in named tensors.

    {name: array} --instances_from_tensors--> instances --> predictor.predict --> answers --output_tensors--> {name: array}

A model takes one input: `text`, or `x` (a vector). A model of tables takes a tensor for each feature, or `examples`, each a
serialised tf.Example. A classifier gives `classes` and `scores` (float32 [B, K], best first), a ranker `id`, `text` and
`score` of its reply, a regressor `outputs`.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.errors import BadInput, TooLarge
from online.models import Answer, input_options, spec_of
from online.models.contract import AnyArray
from online.plugins.tensorflow.tensors import parse_example, read_features
from online.schemas.json_values import JSON
from online.settings import ModelSettings

MAX_ECHO_CHARS = 80  # of what a caller sent, in an error

Tensors = Mapping[str, AnyArray]


class TensorSpec(NamedTuple):
    """The type and shape of a tensor. A size of -1 stands for any size."""

    dtype: Literal["string", "float32"]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors that a model takes and gives, by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


TEXTS, NUMBERS = TensorSpec("string", (-1,)), TensorSpec("float32", (-1,))
CLASSES = {"classes": TensorSpec("string", (-1, -1)), "scores": TensorSpec("float32", (-1, -1))}
REPLY = {"id": TEXTS, "text": TEXTS, "score": NUMBERS}


def signature_of(spec: ModelSettings) -> Signature:
    """Return the tensors that a model takes and gives."""
    encoder = input_options(spec.kind, spec.options)
    vector = TensorSpec("float32", (-1, encoder["size"] or -1))
    inputs = {"text": {"text": TEXTS}, "vector": {"x": vector}, "table": {"examples": TEXTS}}[encoder["input"]]
    kind = spec_of(spec.kind)
    if kind.predicts_numbers:
        return Signature(inputs, {"outputs": NUMBERS})
    return Signature(inputs, REPLY if kind.has_repertoire else CLASSES)


# inputs


def instances_from_tensors(spec: ModelSettings, inputs: Tensors, most: int) -> list[object]:
    """Return the instances of a batch of named tensors, at most `most`. Raises BadInput or TooLarge."""
    for name, array in inputs.items():
        if array.ndim == 0:
            raise BadInput(f"the input {name[:MAX_ECHO_CHARS]!r} must have a batch dimension")
        if len(array) > most:
            raise TooLarge(f"{len(array)} instances; one request takes {most} (max_instances)")
        _check_width(spec, name, _width(array))
    keeps_booleans = input_options(spec.kind, spec.options)["input"] == "table"  # there they are a feature's two values
    rows = {name: _read_rows(array, keeps_booleans) for name, array in inputs.items()}
    return [read_instance(spec, row) for row in split_columns(rows)]


def _read_rows(array: AnyArray, keeps_booleans: bool) -> list[list[object]]:
    rows = array.reshape(len(array), _width(array))
    return (rows if keeps_booleans or array.dtype != np.bool_ else rows.astype(np.uint8)).tolist()


def _width(array: AnyArray) -> int:
    """Return the number of values of each instance.

    It is checked before the array becomes lists: a shape may announce a million empty rows.
    """
    return array.size // max(len(array), 1)


def _check_width(spec: ModelSettings, name: str, values: int) -> None:
    """Raise BadInput for a tensor that is too wide for an instance of this model."""
    encoder = input_options(spec.kind, spec.options)
    most = encoder["size"] if encoder["input"] == "vector" else 1
    if most and values > most:
        raise BadInput(
            f"the input {name[:MAX_ECHO_CHARS]!r} has {values} values for each instance; this model takes {most}"
        )


def split_columns(columns: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return one {name: value} for each place in the batch. Raises BadInput where the columns differ in length."""
    sizes = {name: len(values) for name, values in columns.items()}
    count = next(iter(sizes.values()), 0)
    for name, size in sizes.items():
        if size != count:
            raise BadInput(
                f"the input {name[:MAX_ECHO_CHARS]!r} has an inconsistent batch size: {size}; the first input has {count}"
            )
    return [{name: values[place] for name, values in columns.items()} for place in range(count)]


def read_instance(spec: ModelSettings, row: JSON) -> object:
    """Return the native instance of a row: {input name: value}, or the value alone where there is one input."""
    kind = input_options(spec.kind, spec.options)["input"]
    if kind == "table":
        return _read_table_row(row)
    name = "text" if kind == "text" else "x"
    if is_object(row):
        if unknown := next((each for each in row if each != name), None):
            raise BadInput(
                f"input tensor alias not found in signature: {unknown[:MAX_ECHO_CHARS]}. "
                f"Inputs expected to be in the set {{{name}}}."
            )
        if name not in row:
            raise BadInput(f"the object does not have the named input: {name}")
        row = row[name]
    return _decode_text(_unwrap(row)) if kind == "text" else _flatten(row)


def _read_table_row(row: JSON) -> object:
    if is_object(row):
        if list(row) != ["examples"]:
            return {name: _decode_text(_unwrap(value)) for name, value in row.items()}
        row = row["examples"]
    serialised = _decode_base64(_unwrap(row))
    if isinstance(serialised, bytes):
        return _read_table_row(read_features(parse_example(serialised)))
    return [_decode_text(_unwrap(value)) for value in row] if isinstance(row, list) else row


def is_object(value: object) -> bool:
    """Return whether a value is an object of named values, as opposed to one text in base64."""
    return isinstance(value, dict) and list(value) != ["b64"]


def _unwrap(value: object) -> object:
    """Return the only element of a list of one, however deeply nested; any other value unchanged."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _flatten(value: object) -> list[object]:
    """Return the numbers of a vector of any shape."""
    if not isinstance(value, list):
        return [value]
    return [number for each in value for number in _flatten(each)] if any(type(v) is list for v in value) else value


def _decode_base64(value: object) -> object:
    """Return the bytes of {"b64": "..."}; any other value unchanged."""
    if not (isinstance(value, dict) and list(value) == ["b64"]):
        return value
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadInput("the value of 'b64' is not base64") from None


def _decode_text(value: object) -> object:
    """Return bytes as UTF-8 text; any other value unchanged."""
    value = _decode_base64(value)
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise BadInput("the bytes of an input are not UTF-8 text") from None


# outputs


def output_tensors(kind: str, answers: Sequence[Answer]) -> Tensors:
    """Return the outputs of the signature: texts in arrays of objects, numbers as float32."""
    spec = spec_of(kind)
    if spec.predicts_numbers:
        return {"outputs": regression_values(answers)}
    if spec.has_repertoire:
        return _reply_tensors(answers)
    return _class_tensors(answers)


def _reply_tensors(answers: Sequence[Answer]) -> Tensors:
    chosen = [next((c for c in each.candidates if c.id == each.choice), None) for each in answers]
    texts = {"id": [c.id if c else "" for c in chosen], "text": [(c.text or "") if c else "" for c in chosen]}
    scores = np.array([each.score for each in answers], np.float32)
    return {**{name: np.array(values, object) for name, values in texts.items()}, "score": scores}


def _class_tensors(answers: Sequence[Answer]) -> Tensors:
    ranked = [rank_candidates(each) for each in answers]
    shape = (len(ranked), max(map(len, ranked)))
    classes, scores = np.full(shape, "", object), np.zeros(shape, np.float32)
    for place, each in enumerate(ranked):
        for column, (name, score) in enumerate(each):
            classes[place, column], scores[place, column] = name, score
    return {"classes": classes, "scores": scores}


def regression_values(answers: Sequence[Answer]) -> NDArray[np.float32]:
    """Return the predicted numbers; NaN where the regressor has not learned enough to predict one."""
    values = np.array([math.nan if each.choice is None else float(each.choice) for each in answers])
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def rank_candidates(answer: Answer) -> list[tuple[str, float]]:
    """(class or reply id, score), best first."""
    return sorted(((c.id, c.score) for c in answer.candidates), key=lambda pair: -pair[1])
