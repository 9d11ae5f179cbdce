"""Builds the ONNX graph of a served answer, node by node.

    Graph.op, constant --> nodes and constants --finish--> onnx.ModelProto      the same model: the same bytes

Features are integers, which float32 holds exactly. Everything after the last product that int8 may replace is computed in
`wide`: float64, or float32 where a format has nothing wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from online.models.contract import AnyArray
from online.models.encoders import minilm

OPSET, IR_VERSION = 20, 9
PRODUCER = "online"
Wide = Literal["float64", "float32"]
TENSOR_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """One input or output of a graph. shape: numbers, and names of dimensions that differ from call to call."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    meaning: str


class ExportGraphBuilder(minilm.GraphBuilder):
    """Nodes that compute a served answer. wide: the type of numbers that must not lose digits.

    exact_nodes: the names of products that int8 must leave alone.
    """

    def __init__(self, wide: Wide = "float64", weights: dict[str, AnyArray] | None = None) -> None:
        super().__init__(weights or {})
        self.wide = wide
        self.exact_nodes: list[str] = []

    def constant(self, name: str, values: object, dtype: str) -> str:
        """Return a named constant. Two different ones must not have the same name."""
        array = np.array(values, dtype, order="C")
        assert name not in self.constants or np.array_equal(self.constants[name], array), name
        self.constants[name] = array
        return name

    def scalar(self, name: str, value: float) -> str:
        """Add a constant number."""
        return self.constant(name, value, self.wide)

    def exactly(self, output: str) -> str:
        """Mark the node with this output as one that int8 must leave alone."""
        self.exact_nodes.append(output)
        return output

    def cast(self, x: str, dtype: str) -> str:
        """Append a cast."""
        return self.op("Cast", x, to=TENSOR_TYPES[dtype])

    def widen(self, x: str) -> str:
        """Append a cast to the type of numbers that must not lose digits."""
        return self.cast(x, self.wide)

    def multiply(self, x: str, name: str, weights: object, dtype: str = "float32") -> str:
        """x [B, D] @ weights [D, M]. Only products in float32 may be replaced by int8."""
        return self.op("MatMul", x, self.constant(name, weights, dtype))

    def add(self, x: str, name: str, values: ArrayLike, dtype: str = "float32") -> str:
        """Append the addition of a constant."""
        return self.op("Add", x, self.constant(name, values, dtype))

    def reduce(self, kind: str, x: str) -> str:
        """ReduceMax or ReduceSum over the last axis of [B, C], as [B, 1]."""
        return self.op(kind, x, self.integers(1), keepdims=1)

    def flatten(self, x: str) -> str:
        """[B, 1] -> [B]."""
        return self.op("Squeeze", x, self.integers(1))

    def clip(self, x: str, name: str, most: float, dtype: str | None = None) -> str:
        """Return values within [-most, most]."""
        low = self.constant(f"{name}_low", -most, dtype or self.wide)
        return self.op("Clip", x, low, self.constant(f"{name}_high", most, dtype or self.wide))

    def finish(self, inputs: Sequence[GraphTensor], outputs: Sequence[tuple[GraphTensor, str]]) -> onnx.ModelProto:
        """Return the whole graph. outputs: each with the value that it has."""
        for spec, value in outputs:
            self.nodes.append(helper.make_node("Identity", [value], [spec.name]))
        for node in self.nodes:
            node.name = node.output[0]
        body = helper.make_graph(
            self.nodes,
            "answer",
            [describe(spec) for spec in inputs],
            [describe(spec) for spec, _ in outputs],
            [numpy_helper.from_array(tensor, name) for name, tensor in self.constants.items()],
        )
        uses_own_operators = any(node.domain for node in self.nodes)
        opsets = [("", OPSET), *([("com.microsoft", 1)] if uses_own_operators else [])]
        model = helper.make_model(body, opset_imports=[helper.make_opsetid(*each) for each in opsets])
        model.ir_version, model.producer_name = IR_VERSION, PRODUCER
        return model


def describe(spec: GraphTensor) -> onnx.ValueInfoProto:
    """Return the description of an input or output for ONNX."""
    return helper.make_tensor_value_info(spec.name, TENSOR_TYPES[spec.dtype], list(spec.shape))
