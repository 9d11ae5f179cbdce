"""ONNX: the graph itself, with its description as metadata."""

from collections.abc import Mapping

import onnx
from onnx import helper

from online.models.contract import AnyArray
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.golden import Outputs, Runner
from online.plugins.export.manifest import METADATA_KEY, ExportDescription


def write(graph: AnswerGraph, description: ExportDescription) -> bytes:
    """Write the file."""
    return serialise(graph.model, description)


def serialise(model: onnx.ModelProto, description: ExportDescription) -> bytes:
    """Return the bytes of a model with this description; the model itself stays as it is."""
    described = onnx.ModelProto()
    described.CopyFrom(model)
    helper.set_model_props(described, {METADATA_KEY: description.to_json()})
    return bytes(described.SerializeToString(deterministic=True))


def load(data: bytes, description: ExportDescription) -> Runner:
    """Return answers by ONNX Runtime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, AnyArray]) -> Outputs:
        return dict(zip(names, session.run(None, dict(inputs)), strict=True))

    return run
