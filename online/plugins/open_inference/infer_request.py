"""Infer requests of the Open Inference Protocol v2 -> named arrays.

    JSON                  data of an input as values, nested as the shape says or flat
    JSON + bytes          data of an input as bytes that follow the JSON (binary_data_size); the header
                          Inference-Header-Content-Length says where the JSON ends
    bytes alone           the only input of the model

Bytes are little-endian and row-major; an element of BYTES is its length as uint32, then its bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from online.api.bodies import parse_leniently
from online.errors import BadInput
from online.models import input_options
from online.models.contract import AnyArray
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS, Tensors, signature_of
from online.plugins.tensorflow.tensors import array_from_bytes, array_from_values, check_shape, widen_bfloat16
from online.schemas.json_values import JSONArray
from online.settings import ModelSettings

DTYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
DATATYPES = {"string": "BYTES", "float32": "FP32"}  # of a signature's types


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that a request names.

    binary: as bytes after the JSON. classes: this many of the best, as "score:index:class"; 0: the
    output itself.
    """

    name: str
    binary: bool = False
    classes: int = 0


@dataclass(frozen=True, slots=True)
class InferRequest:
    """outputs: the requested ones; none: all of them, as bytes where `binary` is set."""

    id: str | None
    inputs: Tensors
    outputs: Sequence[RequestedOutput]
    binary: bool


def parse_object(body: bytes) -> dict[str, object]:
    """Return the JSON object in a body. Raises BadInput."""
    try:
        document = parse_leniently(body)
    except ValueError as error:
        raise BadInput(f"the body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadInput("the body must be a JSON object")
    return document


def parse_infer_request(document: Mapping[str, object], data: bytes, most: int) -> InferRequest:
    """Return the request in a JSON object and the bytes that follow it. Raises BadInput or TooLarge.

    most: the largest number of elements of all tensors together.
    """
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise BadInput("'inputs' must be a list of at least one tensor")
    arrays, rest = dict[str, AnyArray](), memoryview(data)
    for place, tensor in enumerate(inputs):
        name, array, rest = _read_tensor(place, tensor, rest, most)
        if name in arrays:
            raise BadInput(f"the input {name[:MAX_ECHO_CHARS]!r} is given twice")
        arrays[name], most = array, most - array.size
    if rest:
        raise BadInput(f"{len(rest)} bytes after the last input belong to no input")
    id, binary = document.get("id"), read_parameters(document).get("binary_data_output", False)
    if id is not None and not isinstance(id, str):
        raise BadInput("'id' must be a string")
    return InferRequest(id, arrays, [read_requested_output(each) for each in _read_outputs(document)], binary is True)


def parse_raw_request(spec: ModelSettings, body: bytes, most: int) -> InferRequest:
    """Return the request in a body that is nothing but the bytes of the only input.

    Raises BadInput where there are several.
    """
    (name, each), *more = signature_of(spec).inputs.items()
    datatype = DATATYPES[each.dtype]
    if more or any(size < 0 for size in each.shape[1:]):
        raise BadInput(f"a raw body does not define the inputs of {spec.name}; send a JSON header")
    if datatype == "BYTES":
        return InferRequest(None, {name: array_from_values([body], DTYPES["BYTES"], [1], most)}, (), False)
    shape = [1, *each.shape[1:]]
    check_shape(shape, most)
    return InferRequest(None, {name: array_from_bytes(body, DTYPES[datatype], shape, most)}, (), False)


def check_inputs(spec: ModelSettings, names: Iterable[str]) -> None:
    """Raise BadInput for an input that the model does not have. A table has an input for each feature, under any name."""
    if input_options(spec.kind, spec.options)["input"] == "table":
        return
    known = signature_of(spec).inputs
    for name in names:
        if name not in known:
            raise BadInput(f"unexpected inference input {name[:MAX_ECHO_CHARS]!r}; the inputs are {', '.join(known)}")


def _read_outputs(document: Mapping[str, object]) -> list[object]:
    outputs = document.get("outputs") or []
    if not isinstance(outputs, list):
        raise BadInput("'outputs' must be a list")
    return outputs


def read_parameters(document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parameters of a request or a tensor. Raises BadInput."""
    parameters = document.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("'parameters' must be an object")
    return parameters


def read_requested_output(output: object) -> RequestedOutput:
    """Return an output that a request asks for. Raises BadInput."""
    if not isinstance(output, dict) or not isinstance(output.get("name"), str):
        raise BadInput("each of 'outputs' must be an object with a 'name'")
    parameters = read_parameters(output)
    classes = parameters.get("classification", 0)
    if not isinstance(classes, int) or classes < 0:
        raise BadInput("'classification' must be a number of classes")
    return RequestedOutput(output["name"], parameters.get("binary_data") is True, classes)


def _read_tensor(place: int, tensor: object, rest: memoryview, most: int) -> tuple[str, AnyArray, memoryview]:
    """(name, array, the bytes of the inputs after this one)"""
    if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
        raise BadInput(f"input {place} must be an object with a 'name'")
    name, shape = tensor["name"], tensor.get("shape")
    datatype = check_datatype(name, tensor.get("datatype"))
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise BadInput(f"the shape of the input {name[:MAX_ECHO_CHARS]!r} must be a list of whole numbers")
    size = read_parameters(tensor).get("binary_data_size")
    if size is None:
        return name, _read_data(datatype, shape, tensor.get("data"), most), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise BadInput(
            f"binary_data_size of the input {name[:MAX_ECHO_CHARS]!r} is {str(size)[:20]}; "
            f"{len(rest)} bytes are left in the body"
        )
    return name, read_raw(datatype, shape, bytes(rest[:size]), most), rest[size:]


def check_datatype(name: str, datatype: object) -> str:
    """Return the datatype, if it is supported. Raises BadInput."""
    if isinstance(datatype, str) and (datatype in DTYPES or datatype == "BF16"):
        return datatype
    unknown = str(datatype)[:MAX_ECHO_CHARS]
    raise BadInput(f"the input {name[:MAX_ECHO_CHARS]!r} has the unknown datatype {unknown}; use {', '.join(DTYPES)}")


def _read_data(datatype: str, shape: Sequence[int], data: object, most: int) -> AnyArray:
    """Return an array from values in JSON."""
    if not isinstance(data, list):
        raise BadInput("an input needs its 'data', a list, or its bytes after the JSON (binary_data_size)")
    values = _flatten(data)
    if datatype == "BYTES":
        if not all(isinstance(value, str) for value in values):
            raise BadInput("'data' of BYTES must be strings")
        return array_from_values(values, DTYPES["BYTES"], shape, most)
    _check_values(datatype, values)
    dtype = np.dtype(np.float32) if datatype == "BF16" else DTYPES[datatype]
    return array_from_values(values, dtype, shape, most)


def _check_values(datatype: str, values: JSONArray) -> None:
    """Raise BadInput for values that the type would change: numpy makes 1 of 1.5 as an integer, and true of 2 as a boolean."""
    if datatype == "BOOL":
        if odd := [value for value in values if not isinstance(value, (bool, int, float)) or value not in (0, 1)]:
            raise BadInput(f"'data' of BOOL must be true, false, 1 or 0, not {str(odd[0])[:MAX_ECHO_CHARS]}")
        return
    if odd := [value for value in values if type(value) not in (int, float)]:
        raise BadInput(f"'data' of {datatype} must be numbers, not {str(odd[0])[:MAX_ECHO_CHARS]}")
    if "INT" in datatype and (odd := [value for value in values if type(value) is float and not value.is_integer()]):
        raise BadInput(f"'data' of {datatype} must be whole numbers, not {odd[0]}")


def _flatten(data: JSONArray) -> list[object]:
    """Return the values of nested lists. It works level by level, so that no depth exhausts the stack."""
    while any(isinstance(value, list) for value in data):
        data = [each for value in data for each in (value if isinstance(value, list) else [value])]
    return data


def read_raw(datatype: str, shape: Sequence[int], content: bytes, most: int) -> AnyArray:
    """Return an array from bytes. Raises BadInput or TooLarge."""
    if datatype == "BYTES":
        return array_from_values(_split_elements(content), DTYPES["BYTES"], shape, most)
    if datatype == "BF16":
        return widen_bfloat16(array_from_bytes(content, np.dtype(np.uint16), shape, most))
    return array_from_bytes(content, DTYPES[datatype], shape, most)


def _split_elements(content: bytes) -> list[bytes]:
    elements, at = list[bytes](), 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "little")
        at += 4 + size
        if at > len(content):
            raise BadInput("an element of BYTES is cut off")
        elements.append(content[at - size : at])
    return elements


def check_not_empty(instances: JSONArray) -> list[object]:
    """Return the instances. Raises BadInput if there are none."""
    if not instances:
        raise BadInput("there are no instances: every input is empty")
    return instances
