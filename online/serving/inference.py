"""What clients of the Open Inference Protocol v2 ask and read: named tensors with a datatype and a shape, as JSON or as bytes.

    body [+ bytes behind the JSON] -> inputs {name: array} -> instances -> predictor.predict -> outputs {name: array}
                                                             (names and shapes: the model's predict signature, tensorflow.py)

Bytes are little-endian and row by row; an element of BYTES is its length as uint32, then itself. Where a body says how long
its JSON is (Inference-Header-Content-Length), what stands behind it is the data of the inputs, in order.
"""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import BadInput, Conflict, NotFound
from online.models import Answer
from online.serving.live import Which
from online.serving.parts import ModelParts, Parts
from online.serving.tensorflow import DEFAULT, Outputs, classes_of, known_versions, outputs_of, signatures
from online.serving.tensors import checked, of_bfloat16, of_bytes, of_values
from online.settings import ModelSettings
from online.snapshots import LATEST, Labelled

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
OF_TENSORFLOW = {"DT_STRING": "BYTES", "DT_FLOAT": "FP32"}
EXTENSIONS = ("binary_tensor_data", "classification", "model_repository", "statistics", "model_configuration")
SHORT = 80  # characters of what a caller sent that an error repeats


@dataclass(frozen=True, slots=True)
class Wanted:
    """An output that is asked for. classes: so many of the best, as "score:index:label"; 0: the output as it is."""

    name: str
    binary: bool = False
    classes: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """outputs: those that are asked for; none: all of them, as bytes where `binary` says so."""

    id: str | None
    inputs: Outputs
    outputs: Sequence[Wanted]
    binary: bool


# in


def asked_of(document: Mapping[str, Any], behind: bytes, most: int) -> Asked:
    """behind: what stands behind the JSON. most: elements of all tensors. Raises BadInput or TooLarge."""
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise BadInput("'inputs' must be a list of tensors, at least one")
    arrays, rest = dict[str, NDArray[Any]](), memoryview(behind)
    for place, told in enumerate(inputs):
        name, array, rest = tensor_of(place, told, rest, most)
        if name in arrays:
            raise BadInput(f"the input {name[:SHORT]!r} is there twice")
        arrays[name], most = array, most - array.size
    if rest:
        raise BadInput(f"{len(rest)} bytes behind the last input belong to none")
    id, binary = document.get("id"), parameters_of(document).get("binary_data_output", False)
    if id is not None and not isinstance(id, str):
        raise BadInput("'id' must be a string")
    return Asked(id, arrays, [wanted_of(each) for each in listed(document, "outputs")], binary is True)


def listed(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name) or []
    if not isinstance(found, list):
        raise BadInput(f"{name!r} must be a list")
    return found


def parameters_of(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = told.get("parameters") or {}
    if not isinstance(found, dict):
        raise BadInput("'parameters' must be an object")
    return found


def wanted_of(told: Any) -> Wanted:
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        raise BadInput("each of 'outputs' must be an object with a 'name'")
    given = parameters_of(told)
    classes = given.get("classification", 0)
    if not isinstance(classes, int) or classes < 0:
        raise BadInput("'classification' must be a number of classes")
    return Wanted(told["name"], given.get("binary_data") is True, classes)


def tensor_of(place: int, told: Any, rest: memoryview, most: int) -> tuple[str, NDArray[Any], memoryview]:
    """(its name, the tensor, the bytes that are left for those behind it)"""
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        raise BadInput(f"input {place} must be an object with a 'name'")
    name, shape = told["name"], told.get("shape")
    datatype = known_datatype(name, told.get("datatype"))
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise BadInput(f"the shape of the input {name[:SHORT]!r} must be a list of whole numbers")
    size = parameters_of(told).get("binary_data_size")
    if size is None:
        return name, of_data(datatype, shape, told.get("data"), most), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise BadInput(
            f"binary_data_size of the input {name[:SHORT]!r} is {str(size)[:20]}; {len(rest)} bytes are there"
        )
    return name, of_raw(datatype, shape, bytes(rest[:size]), most), rest[size:]


def known_datatype(name: str, datatype: Any) -> str:
    """The datatype, if it is one. Raises BadInput."""
    if isinstance(datatype, str) and (datatype in DTYPES or datatype == "BF16"):
        return datatype
    raise BadInput(f"the input {name[:SHORT]!r} has no datatype that is known: {str(datatype)[:SHORT]}")


def some(instances: list[Any]) -> list[Any]:
    if not instances:
        raise BadInput("there are no instances: every input is empty")
    return instances


def of_data(datatype: str, shape: Sequence[int], data: Any, most: int) -> NDArray[Any]:
    """Of JSON: values, nested as the shape says or flat."""
    if not isinstance(data, list):
        raise BadInput("an input needs its 'data', a list, or its bytes behind the JSON (binary_data_size)")
    values = flat(data)
    if datatype == "BYTES":
        if not all(isinstance(value, str) for value in values):
            raise BadInput("'data' of BYTES must be strings")
        return of_values(values, DTYPES["BYTES"], shape, most)
    if not all(isinstance(value, (int, float)) for value in values):
        raise BadInput(f"'data' of {datatype} must be numbers")
    return of_values(values, np.dtype(np.float32) if datatype == "BF16" else DTYPES[datatype], shape, most)


def flat(data: list[Any]) -> list[Any]:
    """Level by level, so that depth costs nothing."""
    while any(isinstance(value, list) for value in data):
        data = [each for value in data for each in (value if isinstance(value, list) else [value])]
    return data


def of_raw(datatype: str, shape: Sequence[int], content: bytes, most: int) -> NDArray[Any]:
    if datatype == "BYTES":
        return of_values(elements_of(content), DTYPES["BYTES"], shape, most)
    if datatype == "BF16":
        return of_bfloat16(of_bytes(content, np.dtype(np.uint16), shape, most))
    return of_bytes(content, DTYPES[datatype], shape, most)


def elements_of(content: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "little")
        at += 4 + size
        if at > len(content):
            raise BadInput("an element of BYTES is cut off")
        found.append(content[at - size : at])
    return found


# out


def answer_of(spec: ModelSettings, asked: Asked, answers: Sequence[Answer]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The outputs as JSON, and the bytes of those that go behind it, in order."""
    binary = {each.name for each in asked.outputs if each.binary}
    told, behind = list[dict[str, Any]](), list[bytes]()
    for name, array in outputs_wanted(spec, asked.outputs, answers):
        shown: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if asked.binary or name in binary:
            behind.append(raw_of(array))
            told.append({**shown, "parameters": {"binary_data_size": len(behind[-1])}})
        else:
            told.append({**shown, "data": array.ravel().tolist()})
    return told, behind


def check_wanted(spec: ModelSettings, wanted: Sequence[Wanted]) -> None:
    """Raises BadInput for an output there is not: before anything is answered, and remembered."""
    outputs = signatures(spec)[DEFAULT].outputs
    for each in wanted:
        if each.name not in outputs:
            raise BadInput(f"unexpected inference output {each.name[:SHORT]!r}; there are {', '.join(outputs)}")


def outputs_wanted(
    spec: ModelSettings, wanted: Sequence[Wanted], answers: Sequence[Answer]
) -> list[tuple[str, NDArray[Any]]]:
    """Those that are asked for, in that order; all of them where none is."""
    outputs = outputs_of(spec.kind, answers)
    chosen = wanted or [Wanted(name) for name in outputs]
    return [(each.name, best(answers, each.classes) if each.classes else outputs[each.name]) for each in chosen]


def datatype_of(array: NDArray[Any]) -> str:
    return "BYTES" if array.dtype.hasobject else "FP32"


def best(answers: Sequence[Answer], count: int) -> NDArray[Any]:
    """Triton's classification extension: object [B, count] of "score:index:label"."""
    rows = []
    for answer in answers:
        places = {candidate.id: place for place, candidate in enumerate(answer.candidates)}
        rows.append([f"{score:f}:{places[label]}:{label}" for label, score in classes_of(answer)[:count]])
    width = max(map(len, rows), default=0)
    table = np.full((len(rows), width), "", object)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def raw_of(array: NDArray[Any]) -> bytes:
    if not array.dtype.hasobject:
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    texts = [str(value).encode() for value in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


# what there is


def find(parts: Parts, name: str, version: str, route: str | None = None) -> tuple[ModelParts, Which]:
    """version: a number or a label; "": the live one, or the canary for its share. Raises NotFound or BadInput."""
    if name not in parts.models:
        raise NotFound(f"Request for unknown model: '{name[:SHORT]}' is not found")
    model = parts.models[name]
    if not version:
        return model, Which(route=route)
    which = Which(version=int(version)) if version.isdecimal() and len(version) < 19 else Which(label=version[:SHORT])
    model.live.find(which)
    return model, which


def is_ready(parts: Parts) -> bool:
    return not parts.stopping and all(model.ready for model in parts.models.values())


def index_of(parts: Parts) -> list[dict[str, str]]:
    """Every version that answers when it is asked for."""
    return [
        {"name": name, "version": str(version), "state": "READY", "reason": ""}
        for name, model in parts.models.items()
        for version in known_versions(model.live)
        if version == model.live.current.version or version in model.live.available
    ]


async def load(parts: Parts, name: str, given: Mapping[str, Any]) -> None:
    """given: `label`, and the `version` that gets it. Raises NotFound or BadInput."""
    model, _ = find(parts, name, "")
    if set(given) - {"version", "label"}:
        raise BadInput("models are loaded from the configuration alone; load takes the parameters version and label")
    if "label" in given:
        version = await asyncio.to_thread(model.snapshots.number_of, str(given.get("version", LATEST)))
        await asyncio.to_thread(model.snapshots.set_label, str(given["label"]), Labelled(version))
        await model.live.refresh_others()


def always_served(parts: Parts, name: str) -> Conflict:
    find(parts, name, "")
    return Conflict(f"{name} learns, and is always served; take it out of the configuration to end that")


def described(spec: ModelSettings, versions: Sequence[int]) -> dict[str, Any]:
    signature = signatures(spec)[DEFAULT]

    def tensors(named: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"name": name, "datatype": OF_TENSORFLOW[each.dtype], "shape": list(each.shape)}
            for name, each in named.items()
        ]

    return {
        "name": spec.name,
        "versions": [str(version) for version in versions],
        "platform": f"online_{spec.kind}",
        "inputs": tensors(signature.inputs),
        "outputs": tensors(signature.outputs),
    }


def config_of(spec: ModelSettings, max_batch: int) -> dict[str, Any]:
    """The little of Triton's model configuration that there is to tell."""
    told = described(spec, ())

    def tensors(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"name": t["name"], "data_type": f"TYPE_{t['datatype'].replace('BYTES', 'STRING')}", "dims": t["shape"]}
            for t in listed
        ]

    return {
        "name": spec.name,
        "platform": told["platform"],
        "backend": "online",
        "max_batch_size": max_batch,
        "input": tensors(told["inputs"]),
        "output": tensors(told["outputs"]),
    }


def raw_body(spec: ModelSettings, body: bytes, most: int) -> Asked:
    """A body that is nothing but the bytes of a model's only input. Raises BadInput where it has several."""
    (name, each), *more = signatures(spec)[DEFAULT].inputs.items()
    datatype = OF_TENSORFLOW[each.dtype]
    if more or any(size < 0 for size in each.shape[1:]):
        raise BadInput(f"a raw body does not tell what is in it for {spec.name}: send a JSON header")
    if datatype == "BYTES":
        return Asked(None, {name: of_values([body], DTYPES["BYTES"], [1], most)}, (), False)
    shape = [1, *each.shape[1:]]
    checked(shape, most)
    return Asked(None, {name: of_bytes(body, DTYPES[datatype], shape, most)}, (), False)


def stats_of(parts: Parts, model: ModelParts) -> dict[str, Any]:
    """Since this server started, of all versions together."""
    name = model.spec.name

    def sample(metric: str) -> float:
        return parts.metrics.registry.get_sample_value(metric, {"model": name}) or 0.0

    def spent(metric: str) -> dict[str, int]:
        return {"count": int(sample(f"{metric}_count")), "ns": int(1e9 * sample(f"{metric}_sum"))}

    nothing = {"count": 0, "ns": 0}
    return {
        "name": name,
        "version": str(model.live.current.version),
        "inference_count": int(sample("online_predictions_total")),
        "execution_count": int(sample("online_compute_seconds_count")),
        "inference_stats": {
            "success": spent("online_prediction_seconds"),
            "fail": nothing,
            "queue": spent("online_wait_seconds"),
            "compute_input": nothing,
            "compute_infer": spent("online_compute_seconds"),
            "compute_output": nothing,
        },
        "batch_stats": [],
    }
