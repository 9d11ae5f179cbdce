"""Bodies of TensorFlow Serving's REST requests -> instances. The errors are in its words, which its clients look for.

{"instances": [row, ...]}   row by row     -+
{"inputs": {name: column}}  by columns     -+--> instances, as the native predict takes them
{"examples": [{name: value}, ...]}         -+
"""

from collections.abc import Mapping, Sequence

from online.api.bodies import parse_leniently
from online.errors import BadInput
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS, is_object, read_instance, split_columns
from online.schemas.json_values import JSON, JSONArray
from online.settings import ModelSettings


def parse_object(body: bytes) -> dict[str, object]:
    """Return the JSON object in a body. Raises BadInput."""
    if not body.strip():
        raise BadInput("JSON Parse error: The document is empty")
    try:
        document = parse_leniently(body)
    except ValueError as error:
        raise BadInput(f"JSON Parse error: Invalid value: {error}") from None
    if not isinstance(document, dict):
        raise BadInput(f"JSON Value: {_json_type(document)} Is not object")
    return document


def _json_type(value: object) -> str:
    """Return the name of a value's type in RapidJSON, the parser of TensorFlow Serving."""
    names = {dict: "Object", list: "Array", str: "String", bool: "Bool", type(None): "Null"}
    return names.get(type(value), "Number")


def read_signature_name(document: Mapping[str, object]) -> str:
    """Return the signature that a request names. Raises BadInput."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise BadInput("'signature_name' key must be a string value.")
    return name


def check_instances(document: Mapping[str, object]) -> None:
    """Raise BadInput unless the document has `instances`, and no `inputs`."""
    if "inputs" in document and "instances" in document:
        raise BadInput("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" not in document:
        raise BadInput("Missing 'inputs' or 'instances' key")
    if not isinstance(document["instances"], list):
        raise BadInput("Excepting 'instances' to be an list/array")
    if not document["instances"]:
        raise BadInput("No values in 'instances' array")


def read_instances(spec: ModelSettings, document: Mapping[str, JSON]) -> list[object]:
    """Return the instances of a predict request: `instances` (row by row) or `inputs` (by columns)."""
    if "inputs" in document and "instances" not in document:
        return _read_inputs(spec, document["inputs"])
    check_instances(document)
    rows: JSONArray = document["instances"]
    are_objects = is_object(rows[0])
    for place, row in enumerate(rows):
        if is_object(row) != are_objects:
            got = "object but got list" if are_objects else "value/list but got object"
            raise BadInput(f"Expecting {got} at item {place} of input list")
    return [read_instance(spec, row) for row in rows]


def _read_inputs(spec: ModelSettings, inputs: JSON) -> list[object]:
    if not is_object(inputs):
        if not isinstance(inputs, list):
            raise BadInput(f"'inputs' must have a batch dimension: a list, not {_json_type(inputs)}")
        return [read_instance(spec, row) for row in inputs]
    for name, values in inputs.items():
        if not isinstance(values, list):
            kind = _json_type(values)
            raise BadInput(f"the input {name[:MAX_ECHO_CHARS]!r} must have a batch dimension: a list, not {kind}")
    return [read_instance(spec, row) for row in split_columns(inputs)]


def read_examples(spec: ModelSettings, document: Mapping[str, object]) -> list[object]:
    """Return the instances of a classify or regress request: its `examples`, each with the features of `context`."""
    context = _read_features(document["context"]) if "context" in document else {}
    if "examples" not in document:
        raise BadInput("When method is classify, key 'examples' is expected and was not found")
    if not isinstance(document["examples"], list):
        raise BadInput("Expecting 'examples' value to be an list/array")
    if not document["examples"]:
        raise BadInput("'examples' value is an empty array")
    return merge_examples(spec, [_read_features(each) for each in document["examples"]], context)


def merge_examples(
    spec: ModelSettings, examples: Sequence[Mapping[str, object]], context: Mapping[str, object]
) -> list[object]:
    """Return the instances of examples, each with the features of the context. Raises BadInput for a feature in both."""
    for place, each in enumerate(examples):
        for name in context.keys() & each.keys():
            raise BadInput(f"the feature {name[:MAX_ECHO_CHARS]!r} is both in the context and in example {place}")
    return [read_instance(spec, {**context, **each}) for each in examples]


def _read_features(example: object) -> dict[str, object]:
    """Return the features of an example in JSON. Raises BadInput."""
    if not isinstance(example, dict):
        raise BadInput(f"Example must be JSON object but got JSON {_json_type(example)}")
    for name, value in example.items():
        for each in value if isinstance(value, list) else [value]:
            if each is None or isinstance(each, list) or is_object(each):
                kind = _json_type(each)
                raise BadInput(f"Feature: {name[:MAX_ECHO_CHARS]} has element with unexpected JSON type: {kind}")
    return example
