"""What TensorFlow Serving's clients ask and read, whichever door they come by: signatures, inputs, outputs, texts of errors.

    JSON body   --predict_body-----> instances -+
    JSON body   --examples_body----> instances -+-> predictor.predict -> outputs_of -> {name: array} -> JSON, TensorProto
    TensorProto --instances_of-----> instances -+                        classes_of -> [(label, score), ...]

A model's one predict signature is `serving_default`. It reads `text`, `x` (a vector) or, of a model of tables, a tensor
for each feature (or `examples`, each a serialised tf.Example). It gives `classes` and `scores` (float32 [B, K], the best
first), of a ranker `id`, `text` and `score` of the reply, of a regressor `outputs`. Beside it there is `classify`, or
`regress` of a regressor; these two methods take `serving_default` for it as well.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic_core import from_json

from online.errors import BadInput, NotFound, PreconditionFailed, TooLarge
from online.models import Answer
from online.models.encoder import reads
from online.serving.live import LiveModel, Served
from online.serving.tensorflow_protos import example_of, features_of
from online.settings import ModelSettings

DEFAULT = "serving_default"
METHOD = "tensorflow/serving/"
PREDICT, CLASSIFY, REGRESS = METHOD + "predict", METHOD + "classify", METHOD + "regress"
CALLED = {CLASSIFY: "classification", REGRESS: "regression"}
SHORT = 80  # characters of what a caller sent that an error repeats

Outputs = Mapping[str, NDArray[Any]]


class TensorSpec(NamedTuple):
    """-1: any size."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    method: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


TEXTS, NUMBERS = TensorSpec("DT_STRING", (-1,)), TensorSpec("DT_FLOAT", (-1,))
CLASSES = {"classes": TensorSpec("DT_STRING", (-1, -1)), "scores": TensorSpec("DT_FLOAT", (-1, -1))}
REPLIES = {"id": TEXTS, "text": TEXTS, "score": NUMBERS}


def signatures(spec: ModelSettings) -> dict[str, Signature]:
    """By name."""
    read = reads(spec.kind, spec.options)
    vector = TensorSpec("DT_FLOAT", (-1, read["size"] or -1))
    inputs = {"text": {"text": TEXTS}, "vector": {"x": vector}, "table": {"examples": TEXTS}}[read["input"]]
    if spec.kind == "regressor":
        outputs = {"outputs": NUMBERS}
        return {DEFAULT: Signature(PREDICT, inputs, outputs), "regress": Signature(REGRESS, {"inputs": TEXTS}, outputs)}
    outputs = REPLIES if spec.kind == "ranker" else CLASSES
    return {DEFAULT: Signature(PREDICT, inputs, outputs), "classify": Signature(CLASSIFY, {"inputs": TEXTS}, CLASSES)}


def signature_named(spec: ModelSettings, name: str, method: str) -> str:
    """The name of the signature that is meant. Raises BadInput where the model has none that answers this method."""
    known, name = signatures(spec), name or DEFAULT
    if method == PREDICT:
        if name != DEFAULT:
            raise PreconditionFailed(f'Serving signature name: "{name[:SHORT]}" not found in signature def')
        return name
    if name not in known:
        raise BadInput(f"No signature was found with the name: {name[:SHORT]}")
    has = any(signature.method == method for signature in known.values())
    if not has or known[name].method not in (PREDICT, method):
        raise BadInput(f"Expected {CALLED[method]} signature method_name to be {method}. Was: {known[name].method}")
    return name


# inputs


def parsed(body: bytes) -> dict[str, Any]:
    """An object, as TensorFlow Serving reads one: NaN and Infinity are numbers, what stands behind it is not looked at.

    Raises BadInput.
    """
    if not body.strip():
        raise BadInput("JSON Parse error: The document is empty")
    try:
        document = from_json(body)
    except ValueError as error:
        if "trailing characters" not in str(error):
            raise BadInput(f"JSON Parse error: Invalid value: {error}") from None
        document = _first_value(body)
    if not isinstance(document, dict):
        raise BadInput(f"JSON Value: {type_of(document)} Is not object")
    return document


def _first_value(body: bytes) -> Any:
    """Only of a body whose first value the other parser has read to its end: that one minds depth, this one does not."""
    try:
        return json.JSONDecoder().raw_decode(body.decode(errors="replace").lstrip(" \t\r\n"))[0]
    except ValueError:
        raise BadInput("JSON Parse error: Invalid value") from None


def type_of(value: Any) -> str:
    """What RapidJSON calls its type."""
    names = {dict: "Object", list: "Array", str: "String", bool: "Bool", type(None): "Null"}
    return names.get(type(value), "Number")


def signature_name(document: Mapping[str, Any]) -> str:
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise BadInput("'signature_name' key must be a string value.")
    return name


def check_instances(document: Mapping[str, Any]) -> None:
    """Raises BadInput unless there are `instances`, and no `inputs` beside them."""
    if "inputs" in document and "instances" in document:
        raise BadInput("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" not in document:
        raise BadInput("Missing 'inputs' or 'instances' key")
    if not isinstance(document["instances"], list):
        raise BadInput("Excepting 'instances' to be an list/array")
    if not document["instances"]:
        raise BadInput("No values in 'instances' array")


def predict_body(spec: ModelSettings, document: Mapping[str, Any]) -> list[Any]:
    """Instances out of `instances` (row by row) or `inputs` (tensor by tensor)."""
    if "inputs" in document and "instances" not in document:
        return of_columns(spec, document["inputs"])
    check_instances(document)
    rows: list[Any] = document["instances"]
    named = is_object(rows[0])
    for place, row in enumerate(rows):
        if is_object(row) != named:
            got = "object but got list" if named else "value/list but got object"
            raise BadInput(f"Expecting {got} at item {place} of input list")
    return [instance_of(spec, row) for row in rows]


def of_columns(spec: ModelSettings, inputs: Any) -> list[Any]:
    if not is_object(inputs):
        if not isinstance(inputs, list):
            raise BadInput(f"'inputs' must have a batch dimension: a list, not {type_of(inputs)}")
        return [instance_of(spec, row) for row in inputs]
    for name, values in inputs.items():
        if not isinstance(values, list):
            raise BadInput(f"the input {name[:SHORT]!r} must have a batch dimension: a list, not {type_of(values)}")
    return [instance_of(spec, row) for row in rows_of(inputs)]


def instances_of(spec: ModelSettings, inputs: Outputs, most: int) -> list[Any]:
    """Instances out of tensors by name, no more than `most`. Raises BadInput or TooLarge."""
    if not inputs:
        missing = ",".join(signatures(spec)[DEFAULT].inputs)
        raise BadInput(f"input size does not match signature: 0!=1 len({{}}) != len({{{missing}}}).")
    for name, array in inputs.items():
        if array.ndim == 0:
            raise BadInput(f"the input {name[:SHORT]!r} must have a batch dimension")
        if len(array) > most:
            raise TooLarge(f"{len(array)} instances; one request takes {most} (max_instances)")
        check_width(spec, name, width_of(array))
    flat = {name: array.reshape(len(array), width_of(array)).tolist() for name, array in inputs.items()}
    return [instance_of(spec, row) for row in rows_of(flat)]


def width_of(array: NDArray[Any]) -> int:
    """Values of each instance. A shape may name a million places that hold none: they are never to become lists."""
    return array.size // max(len(array), 1)


def check_width(spec: ModelSettings, name: str, values: int) -> None:
    """Raises BadInput for a tensor that no instance could hold, before it is taken apart."""
    read = reads(spec.kind, spec.options)
    takes = read["size"] if read["input"] == "vector" else 1
    if takes and values > takes:
        raise BadInput(f"the input {name[:SHORT]!r} has {values} values for each instance; this model takes {takes}")


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """One {name: value} for each place in the batch."""
    sizes = {name: len(values) for name, values in columns.items()}
    count = next(iter(sizes.values()), 0)
    for name, size in sizes.items():
        if size != count:
            raise BadInput(f"Tensor name: {name[:SHORT]} has inconsistent batch size: {size} expecting: {count}")
    return [{name: values[place] for name, values in columns.items()} for place in range(count)]


def instance_of(spec: ModelSettings, row: Any) -> Any:
    """What our predict calls an instance. A row is {input's name: value} or, where there is one input, its value."""
    read = reads(spec.kind, spec.options)["input"]
    if read == "table":
        return table_row(row)
    own = "text" if read == "text" else "x"
    if is_object(row):
        if own not in row and len(row) != 1:
            raise BadInput(f"JSON object: does not have named input: {own}")
        row = row[own] if own in row else next(iter(row.values()))
    return text_of(alone(row)) if read == "text" else flat(row)


def table_row(row: Any) -> Any:
    if is_object(row):
        if list(row) != ["examples"]:
            return {name: text_of(alone(value)) for name, value in row.items()}
        row = row["examples"]
    serialised = bytes_of(alone(row))
    if isinstance(serialised, bytes):
        return table_row(features_of(example_of(serialised)))
    return [text_of(alone(value)) for value in row] if isinstance(row, list) else row


def is_object(value: Any) -> bool:
    """Of named values, that is, and not one text in base64."""
    return isinstance(value, dict) and list(value) != ["b64"]


def alone(value: Any) -> Any:
    """A value that came as a list of one."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def flat(value: Any) -> list[Any]:
    """The numbers of a vector, whatever shape they came in."""
    if not isinstance(value, list):
        return [value]
    return [number for each in value for number in flat(each)] if any(type(v) is list for v in value) else value


def bytes_of(value: Any) -> Any:
    """{"b64": "..."} as the bytes it stands for; anything else as it is."""
    if not (isinstance(value, dict) and list(value) == ["b64"]):
        return value
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadInput("Unable to base64 decode: the value of 'b64' is no base64") from None


def text_of(value: Any) -> Any:
    """Bytes as the text they are; anything else as it is."""
    value = bytes_of(value)
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise BadInput("bytes that are no UTF-8 text") from None


def examples_body(spec: ModelSettings, document: Mapping[str, Any]) -> list[Any]:
    """Instances out of `examples`, each with the features of `context` as well."""
    context = features(document["context"]) if "context" in document else {}
    if "examples" not in document:
        raise BadInput("When method is classify, key 'examples' is expected and was not found")
    if not isinstance(document["examples"], list):
        raise BadInput("Expecting 'examples' value to be an list/array")
    if not document["examples"]:
        raise BadInput("'examples' value is an empty array")
    return of_examples(spec, [features(each) for each in document["examples"]], context)


def of_examples(spec: ModelSettings, examples: Sequence[Mapping[str, Any]], context: Mapping[str, Any]) -> list[Any]:
    for place, each in enumerate(examples):
        for name in context.keys() & each.keys():
            raise BadInput(f"the feature {name[:SHORT]!r} is both in the context and in example {place}")
    return [instance_of(spec, {**context, **each}) for each in examples]


def features(example: Any) -> dict[str, Any]:
    """The features of a JSON example. Raises BadInput."""
    if not isinstance(example, dict):
        raise BadInput(f"Example must be JSON object but got JSON {type_of(example)}")
    for name, value in example.items():
        for each in value if isinstance(value, list) else [value]:
            if each is None or isinstance(each, list) or is_object(each):
                kind = type_of(each)
                raise BadInput(f"Feature: {name[:SHORT]} has element with unexpected JSON type: {kind}")
    return example


# outputs


def outputs_of(kind: str, answers: Sequence[Answer]) -> Outputs:
    """What `serving_default` gives: texts in arrays of objects, numbers as float32."""
    if kind == "regressor":
        return {"outputs": numbers_of(answers)}
    if kind == "ranker":
        chosen = [next((c for c in each.candidates if c.id == each.choice), None) for each in answers]
        texts = {"id": [c.id if c else "" for c in chosen], "text": [(c.text or "") if c else "" for c in chosen]}
        scores = np.array([each.score for each in answers], np.float32)
        return {**{name: np.array(values, object) for name, values in texts.items()}, "score": scores}
    listed = [classes_of(each) for each in answers]
    shape = (len(listed), max(map(len, listed)))
    classes, scores = np.full(shape, "", object), np.zeros(shape, np.float32)
    for place, each in enumerate(listed):
        for at, (label, score) in enumerate(each):
            classes[place, at], scores[place, at] = label, score
    return {"classes": classes, "scores": scores}


def numbers_of(answers: Sequence[Answer]) -> NDArray[np.float32]:
    """NaN where a regressor has not seen enough to say anything."""
    values = np.array([math.nan if each.choice is None else float(each.choice) for each in answers])
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def classes_of(answer: Answer) -> list[tuple[str, float]]:
    """(label, or reply id; score), the best first."""
    return sorted(((c.id, c.score) for c in answer.candidates), key=lambda pair: -pair[1])


def rows_json(outputs: Outputs) -> bytes:
    """Row by row: a value each where there is one output, otherwise an object each."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"predictions": ' + array_json(array) + b"}"
    count = len(next(iter(outputs.values())))
    rows = (object_json({name: array[at] for name, array in outputs.items()}) for at in range(count))
    return b'{"predictions": [' + b", ".join(rows) + b"]}"


def columns_json(outputs: Outputs) -> bytes:
    """Tensor by tensor."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"outputs": ' + array_json(array) + b"}"
    return b'{"outputs": ' + object_json(outputs) + b"}"


def classes_json(answers: Sequence[Answer]) -> bytes:
    def pairs(answer: Answer) -> bytes:
        shown = (b"[" + orjson.dumps(label) + b", " + number_json(score) + b"]" for label, score in classes_of(answer))
        return b"[" + b", ".join(shown) + b"]"

    return b'{"results": [' + b", ".join(map(pairs, answers)) + b"]}"


def numbers_json(answers: Sequence[Answer]) -> bytes:
    return b'{"results": ' + array_json(numbers_of(answers)) + b"}"


def object_json(arrays: Mapping[str, Any]) -> bytes:
    return b"{" + b", ".join(orjson.dumps(name) + b": " + array_json(each) for name, each in arrays.items()) + b"}"


def array_json(array: Any) -> bytes:
    """Of an array, or of what stands at one of its places."""
    if isinstance(array, np.ndarray):
        return b"[" + b", ".join(map(array_json, array)) + b"]"
    return orjson.dumps(array) if isinstance(array, str) else number_json(array)


def number_json(value: float) -> bytes:
    """A float32 in its shortest form: 0.2 is 0.2, one is 1.0, and what is no number is NaN, as TensorFlow Serving has it."""
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        return b"NaN" if np.isnan(number) else b"Infinity" if number > 0 else b"-Infinity"
    return str(number).encode()


# status


def known_versions(live: LiveModel) -> list[int]:
    """Those that somebody may ask about: the live one first, then the newest."""
    beside = {*live.available, *live.damaged, *live.loading} - {live.current.version, 0}
    return [live.current.version, *sorted(beside, reverse=True)]


def status_of(live: LiveModel, version: int) -> dict[str, Any]:
    state = "AVAILABLE" if version == live.current.version else live.state_of(version)
    error = {"error_code": "OK", "error_message": ""}
    if version in live.damaged and state == "END":
        error = {"error_code": "DATA_LOSS", "error_message": "the version is damaged, or cannot predict"}
    return {"version": str(version), "state": state, "status": error}


def statuses(live: LiveModel, version: int | None) -> list[dict[str, Any]]:
    """Of one version, or of all. Raises NotFound."""
    known = known_versions(live)
    if version is None:
        return [status_of(live, each) for each in known]
    if version not in known:
        raise NotFound(f"Could not find version {version} of model {live.snapshots.model}")
    return [status_of(live, version)]


def metadata(spec: ModelSettings, served: Served) -> dict[str, Any]:
    described = {name: signature_shown(each) for name, each in signatures(spec).items()}
    model_spec = {"name": spec.name, "signature_name": "", "version": str(served.version)}
    return {"model_spec": model_spec, "metadata": {"signature_def": {"signature_def": described}}}


def signature_shown(signature: Signature) -> dict[str, Any]:
    """As protobuf's JSON has it: every field, and an int64 as text."""

    def tensors(named: Mapping[str, TensorSpec]) -> dict[str, Any]:
        return {name: tensor(name, each) for name, each in named.items()}

    def tensor(name: str, each: TensorSpec) -> dict[str, Any]:
        dims = [{"size": str(size), "name": ""} for size in each.shape]
        shape = {"dim": dims, "unknown_rank": False}
        return {"dtype": each.dtype, "tensor_shape": shape, "name": f"{name}:0"}

    inputs, outputs = tensors(signature.inputs), tensors(signature.outputs)
    return {"inputs": inputs, "outputs": outputs, "method_name": signature.method, "defaults": {}}
