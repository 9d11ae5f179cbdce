"""The OpenAPI document that is fuzzed: that of the service, with more of what exists there and routes of other protocols."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }

[[models]]
name = "txt"
kind = "classifier"
options = { input = "text" }
"""
NAMES = ["chat", "vec", "tab", "num", "txt", "unknown"]
Known = Mapping[str, Sequence[str]]
MAX_TIMEOUT = {"maximum": 1_000}
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
INSTANCE: dict[str, Any] = {"anyOf": [{"type": "string"}, NUMBERS, {"type": "object"}, {}]}
TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string", "enum": ["x", "text", "a"]},
        "datatype": {"type": "string", "enum": ["FP32", "BYTES", "INT64", "BOOL", "FP16", "BF16", "?"]},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 4}, "maxItems": 3},
        "data": {"type": "array", "items": INSTANCE},
        "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer"}}},
    },
}
INFER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "inputs": {"type": "array", "items": TENSOR},
        "outputs": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "parameters": {"type": "object"},
    },
}
ROWS = {
    "type": "object",
    "properties": {
        "signature_name": {"type": "string"},
        "instances": {"type": "array", "items": INSTANCE},
        "inputs": INSTANCE,
        "examples": {"type": "array", "items": {"type": "object"}},
        "context": {"type": "object"},
    },
}
POST_BODIES: dict[str, dict[str, Any]] = {
    "/v2/models/{model}/infer": INFER,
    "/v2/models/{model}/versions/{version}/infer": INFER,
    "/v2/repository/index": {"type": "object"},
    "/v2/repository/models/{model}/load": {"type": "object", "properties": {"parameters": {"type": "object"}}},
    "/v2/repository/models/{model}/unload": {"type": "object"},
    "/v1/models/{model}:classify": ROWS,
    "/v1/models/{model}:regress": ROWS,
    "/v1/models/{model}/versions/{version}:classify": ROWS,
    "/v1/models/{model}/labels/{label}:regress": ROWS,
}
GET_PATHS = (
    "/v2",
    "/v2/models",
    "/v2/models/{model}",
    "/v2/models/{model}/config",
    "/v2/models/{model}/stats",
    "/v2/models/{model}/versions/{version}/ready",
    "/v1/models/{model}/versions/{version}",
    "/v1/models/{model}/labels/{label}/metadata",
)


def prepare_document(document: dict[str, Any], known: Known) -> dict[str, Any]:
    """Return the document with the names of the models, the routes of other protocols, and what is known to exist.

    known: values that exist, by what they are: "user", "prediction_id", or the part of a path that an id follows, such as
    "conversations". Event streams are left out because they do not end. The timeout for an offset is at most a second.
    """
    paths: dict[str, Any] = {path: each for path, each in document["paths"].items() if not path.endswith("/events")}
    for path, methods in paths.items():
        for method in methods.values():
            for parameter in method.get("parameters", []):
                parameter["schema"] = prepare_parameter(path, parameter, known)
    schemas = document["components"]["schemas"]
    schemas["PredictRequest"]["properties"]["timeout_ms"] |= MAX_TIMEOUT
    schemas["PredictRequest"]["properties"]["instances"]["items"] = INSTANCE
    item = schemas["FeedbackItem"]["properties"]
    item["input"] = INSTANCE
    for name in ("prediction_id", "user"):
        item[name] = with_known(item[name], known.get(name, ()))
    paths |= {path: {"get": operation(path)} for path in GET_PATHS}
    paths |= {path: {"post": {**operation(path), "requestBody": body(schema)}} for path, schema in POST_BODIES.items()}
    return {**document, "paths": paths}


def prepare_parameter(path: str, parameter: Mapping[str, Any], known: Known) -> dict[str, Any]:
    name, schema = parameter["name"], parameter["schema"]
    if name == "model" and parameter["in"] == "path":
        return {"type": "string", "enum": NAMES}
    if name == "timeout_ms":
        return {**schema, **MAX_TIMEOUT}
    before = re.search(rf"(\w+)/{{{name}}}", path)
    what = {"X-User": "user", "id": before[1] if before else ""}.get(name, name)
    return with_known(schema, known.get(what, ()))


def with_known(schema: dict[str, Any], values: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the same values, of which those that exist are tried often."""
    return {"anyOf": [schema, {"type": "string", "enum": list(values)}]} if values else schema


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def operation(path: str) -> dict[str, Any]:
    schemas = {"model": {"type": "string", "enum": NAMES}}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, {"type": "string"})}
        for name in re.findall(r"{(\w+)}", path)
    ]
    return {"parameters": parameters, "responses": {"default": {"description": "any response"}}}
