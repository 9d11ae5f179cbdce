"""ONNX with weights of int8: products by dynamic quantisation, in which ONNX Runtime chooses the scale of what it multiplies.

Random features are left alone: their products must be exact. Weights have 7 bits (`reduce_range`), because some processors lose
digits when they add products of 8 bits, and a scale for each column.
"""

import math
import tempfile
from pathlib import Path

import onnx

from online.models.export.answers import AnswerGraph
from online.models.export.formats import onnx_file
from online.models.export.manifest import Description
from online.models.tower.fake_quantisation import LEAST_WEIGHTS

load = onnx_file.load


def write(graph: AnswerGraph, description: Description) -> bytes:
    return onnx_file.serialise(quantise(graph), description)


def quantise(graph: AnswerGraph) -> onnx.ModelProto:
    """The model with int8 weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    nodes = find_products(graph)
    if not nodes:  # an empty list would mean all nodes
        return graph.model
    prepared = onnx.ModelProto()
    prepared.CopyFrom(graph.model)
    add_pre_process_metadata(prepared)  # there is nothing to prepare in our graphs, so no warning is due
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantize_dynamic(
            prepared,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_quantize=nodes,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={
                "DefaultTensorType": onnx.TensorProto.FLOAT
            },  # of what follows an operator that is not ONNX's own
        )
        return onnx.load(path)


def find_products(graph: AnswerGraph) -> list[str]:
    """The nodes that multiply by, or look up in, a large float32 matrix, without those that must stay exact."""
    matrices = {
        tensor.name
        for tensor in graph.model.graph.initializer
        if len(tensor.dims) == 2
        and math.prod(tensor.dims) >= LEAST_WEIGHTS
        and tensor.data_type == onnx.TensorProto.FLOAT
    }
    kinds = ("MatMul", "Gather")
    found = (node for node in graph.model.graph.node if node.op_type in kinds and matrices.intersection(node.input))
    return [node.name for node in found if node.name not in graph.exact_nodes]
