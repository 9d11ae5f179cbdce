"""ONNX with weights of int8: large products are sums of whole numbers, and each row of what is multiplied has a scale of its own.

    x [.., D] --uint8, scale and zero of each row----\
                                                      MatMulInteger --> int32 --minus zeros, times both scales--> [.., H]
    weights [D, H] --7 bits, scale of each column----/
    table [V, D]   --int8, scale of each row----> rows that are looked up --times their scales--> float32

So an answer does not depend on the others of its call. ONNX Runtime's own `quantize_dynamic` finds one scale for the whole input of a product:
there a large number in one row takes digits from all others, and one NaN makes all of them NaN.

Random features are left alone: their products must be exact. Weights have 7 bits, because some processors lose digits when they
add products of 8 bits. The operators are ONNX's own.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from online.models.contract import AnyArray
from online.models.statistics.weight_bits import LARGEST_WEIGHT, LEAST_WEIGHTS
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.compact import LARGEST
from online.plugins.export.compact import quantise as quantise_matrix
from online.plugins.export.formats import onnx_file
from online.plugins.export.manifest import ExportDescription

STEPS = 255  # between the least and the largest number of a row
TINY = 1e-30  # the scale of a row of zeros

load = onnx_file.load


def write(graph: AnswerGraph, description: ExportDescription) -> bytes:
    """Write the file with int8 products."""
    return onnx_file.serialise(quantise(graph), description)


def quantise(graph: AnswerGraph) -> onnx.ModelProto:
    """Return the model with int8 weights."""
    products = set(find_products(graph))
    nodes = IntegerNodes({each.name: numpy_helper.to_array(each) for each in graph.model.graph.initializer})
    for node in graph.model.graph.node:
        if node.name in products:
            nodes.replace(node)
        else:
            nodes.append(node)
    quantised = onnx.ModelProto()
    quantised.CopyFrom(graph.model)
    del quantised.graph.node[:], quantised.graph.initializer[:]
    quantised.graph.node.extend(nodes.nodes)
    quantised.graph.initializer.extend(nodes.list_constants())
    return quantised


def find_products(graph: AnswerGraph) -> list[str]:
    """Return the nodes that multiply by, or look up in, a large float32 matrix, without those that must stay exact."""
    matrices = {
        tensor.name
        for tensor in graph.model.graph.initializer
        if len(tensor.dims) == 2
        and math.prod(tensor.dims) >= LEAST_WEIGHTS
        and tensor.data_type == onnx.TensorProto.FLOAT
    }
    place_of_matrix = {"MatMul": 1, "Gather": 0}
    found = (
        node
        for node in graph.model.graph.node
        if node.op_type in place_of_matrix and node.input[place_of_matrix[node.op_type]] in matrices
    )
    return [node.name for node in found if node.name not in graph.exact_nodes]


@dataclass(frozen=True, slots=True)
class IntegerRows:
    """A tensor [.., D] as rows of whole numbers. Names of values in the graph.

    values: uint8 [M, D]. scales: float32 [M]. zeros: int32 [M, 1], the whole number that stands for 0. shape: of the tensor, without D.
    """

    values: str
    scales: str
    zeros: str
    shape: str


class IntegerNodes:
    """The nodes of a graph in which some products are of whole numbers, and their constants."""

    def __init__(self, constants: dict[str, AnyArray]) -> None:
        """constants: those of the graph, by name."""
        self.nodes: list[NodeProto] = []
        self.constants = dict(constants)
        self._rows: dict[str, IntegerRows] = {}  # of tensors that several products may share

    def append(self, node: NodeProto) -> None:
        """Append a node."""
        self.nodes.append(node)

    def replace(self, node: NodeProto) -> None:
        """Append what computes the same as a product by a matrix, or a look-up in one."""
        if node.op_type == "MatMul":
            self._multiply(node.input[0], node.input[1], node.output[0])
        else:
            self._look_up(node.input[0], node.input[1], node.output[0])

    def list_constants(self) -> list[TensorProto]:
        """Return those that are used."""
        used = {name for node in self.nodes for name in node.input}
        return [numpy_helper.from_array(values, name) for name, values in self.constants.items() if name in used]

    def _multiply(self, x: str, matrix: str, output: str) -> None:
        width, height = self.constants[matrix].shape
        weights, scales = self._store(matrix, 0, LARGEST_WEIGHT)
        sums = self._constant(f"{matrix}.sums", self.constants[weights].sum(0, np.int32, keepdims=True))
        if x not in self._rows:
            self._rows[x] = self._quantise_rows(x, width)
        rows = self._rows[x]
        product = self._add("MatMulInteger", f"{output}.product", rows.values, weights)
        whole = self._add("Sub", f"{output}.whole", product, self._add("Mul", f"{output}.excess", rows.zeros, sums))
        scaled = self._add("DequantizeLinear", f"{output}.scaled", whole, rows.scales, axis=0)
        result = self._add("Mul", f"{output}.result", scaled, scales)
        shape = self._add("Concat", f"{output}.shape", rows.shape, self._integers(height), axis=0)
        self._add("Reshape", output, result, shape)

    def _quantise_rows(self, x: str, width: int) -> IntegerRows:
        """Quantise as ONNX Runtime's dynamic quantisation does with a whole tensor: 0 is a whole number of every row."""
        rows = self._add("Reshape", f"{x}.rows", x, self._integers(-1, width))
        sizes = self._add("Shape", f"{x}.sizes", x)
        shape = self._add("Slice", f"{x}.leading", sizes, self._integers(0), self._integers(-1))
        zero, steps, tiny = (
            self._float("int8.zero", 0),
            self._float("int8.steps", STEPS),
            self._float("int8.tiny", TINY),
        )
        least = self._add("Min", f"{x}.least", self._reduce("Min", rows), zero)
        span = self._add("Sub", f"{x}.span", self._add("Max", f"{x}.most", self._reduce("Max", rows), zero), least)
        scales = self._add("Max", f"{x}.scales", self._add("Div", f"{x}.step", span, steps), tiny)
        place = self._add(
            "Round", f"{x}.place", self._add("Div", f"{x}.below", self._add("Neg", f"{x}.depth", least), scales)
        )
        zeros = self._add("Cast", f"{x}.zeros", place, to=TensorProto.UINT8)
        values = self._add("QuantizeLinear", f"{x}.values", rows, scales, zeros, axis=0)
        column = self._add(
            "Unsqueeze",
            f"{x}.column",
            self._add("Cast", f"{x}.offsets", zeros, to=TensorProto.INT32),
            self._integers(1),
        )
        # the least and the largest number pass over NaN; the sum does not
        nothing = self._add("Mul", f"{x}.nothing", self._reduce("Sum", rows), zero)
        return IntegerRows(values, self._add("Add", f"{x}.factors", scales, nothing), column, shape)

    def _reduce(self, kind: str, rows: str) -> str:
        """Return the least, the largest or the sum of the numbers of each row: [M, D] -> [M]."""
        return self._add(f"Reduce{kind}", f"{rows}.{kind}", rows, self._integers(1), keepdims=0)

    def _look_up(self, table: str, places: str, output: str) -> None:
        values, scales = self._store(table, 1, LARGEST)
        whole = self._add("Gather", f"{output}.whole", values, places)
        factors = self._add("Gather", f"{output}.factors", scales, places)
        self._add("Mul", output, self._add("Cast", f"{output}.float", whole, to=TensorProto.FLOAT), factors)

    def _store(self, matrix: str, axis: int, largest: int) -> tuple[str, str]:
        """Return the names of a matrix in whole numbers, and of its scales. axis: along which numbers share one."""
        values, scales = quantise_matrix(self.constants[matrix], axis, largest)
        return self._constant(f"{matrix}.int8", values), self._constant(f"{matrix}.scales", scales)

    def _add(self, kind: str, output: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, [*inputs], [output], name=output, **attributes))
        return output

    def _constant(self, name: str, values: AnyArray) -> str:
        self.constants[name] = values
        return name

    def _float(self, name: str, value: float) -> str:
        return self._constant(name, np.array(value, np.float32))

    def _integers(self, *values: int) -> str:
        return self._constant(f"int8.{','.join(map(str, values))}", np.array(values, np.int64))
