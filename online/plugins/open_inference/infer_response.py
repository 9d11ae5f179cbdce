"""Answers -> the output tensors of the Open Inference Protocol v2, as JSON or as bytes after it."""

import struct
from collections.abc import Sequence

import numpy as np

from online.errors import BadInput
from online.models import Answer
from online.models.contract import AnyArray
from online.plugins.open_inference.infer_request import InferRequest, RequestedOutput
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS, output_tensors, rank_candidates, signature_of
from online.schemas.json_values import JSONObject
from online.settings import ModelSettings


def write_outputs(
    spec: ModelSettings, request: InferRequest, answers: Sequence[Answer]
) -> tuple[list[dict[str, object]], list[bytes]]:
    """Return the outputs as JSON, and the bytes of those that follow the JSON, in order."""
    binary = {each.name for each in request.outputs if each.binary}
    outputs, data = list[JSONObject](), list[bytes]()
    for name, array in select_outputs(spec, request.outputs, answers):
        output: JSONObject = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if request.binary or name in binary:
            data.append(write_raw(array))
            outputs.append({**output, "parameters": {"binary_data_size": len(data[-1])}})
        else:
            outputs.append({**output, "data": array.ravel().tolist()})
    return outputs, data


def check_outputs(spec: ModelSettings, requested: Sequence[RequestedOutput]) -> None:
    """Raise BadInput for an output that the model does not have, before anything is recorded."""
    outputs = signature_of(spec).outputs
    for each in requested:
        if each.name not in outputs:
            unknown = each.name[:MAX_ECHO_CHARS]
            raise BadInput(f"unexpected inference output {unknown!r}; the outputs are {', '.join(outputs)}")


def select_outputs(
    spec: ModelSettings, requested: Sequence[RequestedOutput], answers: Sequence[Answer]
) -> list[tuple[str, AnyArray]]:
    """Return the requested outputs in their order, or all outputs where none is requested."""
    outputs = output_tensors(spec.kind, answers)
    selected = requested or [RequestedOutput(name) for name in outputs]
    return [
        (each.name, _best_classes(answers, each.classes) if each.classes else outputs[each.name]) for each in selected
    ]


def _best_classes(answers: Sequence[Answer], count: int) -> AnyArray:
    """Triton's classification extension: object [B, count] of "score:index:class"."""
    rows = []
    for answer in answers:
        places = {candidate.id: place for place, candidate in enumerate(answer.candidates)}
        rows.append([f"{score:f}:{places[name]}:{name}" for name, score in rank_candidates(answer)[:count]])
    width = max(map(len, rows), default=0)
    table = np.full((len(rows), width), "", object)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def datatype_of(array: AnyArray) -> str:
    """Return the protocol's name of an array's type."""
    return "BYTES" if array.dtype.hasobject else "FP32"


def write_raw(array: AnyArray) -> bytes:
    """Return an array as the protocol's raw bytes."""
    if not array.dtype.hasobject:
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    texts = [str(value).encode() for value in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
