"""Runs an answer graph with torch: what is compiled for devices, and how a safetensors file is read.

nodes, constants --GraphModule--> outputs      each operator as ONNX defines it, for the attributes that our graphs use
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from online.models.contract import AnyArray
from online.schemas.json_values import JSONObject

DTYPES = {
    int(helper.np_dtype_to_tensor_dtype(np.dtype(name))): dtype
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64), ("int64", torch.int64))
}


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """One operator. kind: its name in ONNX."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Program:
    """A graph without protobuf. constants: by name."""

    steps: tuple[GraphOperator, ...]
    constants: Mapping[str, AnyArray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_program(model: onnx.ModelProto) -> Program:
    """Return the steps of a graph, without those that only give an output its name."""
    graph = model.graph
    steps = tuple(
        GraphOperator(
            node.op_type,
            tuple(node.input),
            node.output[0],
            {each.name: helper.get_attribute_value(each) for each in node.attribute},
        )
        for node in graph.node
    )
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return Program(steps, constants, tuple(x.name for x in graph.input), tuple(x.name for x in graph.output))


class GraphModule(nn.Module):
    """A program as a torch module: inputs in their order -> outputs in their order."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.small: dict[str, list[int]] = {}  # shapes, axes and places, which tracing must know as numbers
        self.buffer_of: dict[str, str] = {}
        for place, (name, values) in enumerate(program.constants.items()):
            if name.startswith(STATIC):
                self.small[name] = values.reshape(-1).tolist()
            self.buffer_of[name] = f"constant_{place}"
            self.register_buffer(self.buffer_of[name], torch.from_numpy(np.array(values)))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the operators in order."""
        values: JSONObject = dict(zip(self.program.inputs, inputs, strict=True))
        values |= {name: getattr(self, buffer) for name, buffer in self.buffer_of.items()} | self.small
        for step in self.program.steps:
            arguments = [values[name] for name in step.inputs]
            values[step.output] = OPERATORS[step.kind](*arguments, **step.attributes)
        return tuple(values[name] for name in self.program.outputs)


STATIC = ("integers_", "shape_of_")  # names of constants that are shapes, axes or places


def attend(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Return attention of [B, T, W] in `num_heads` heads."""
    q, k, v = (part.reshape(*part.shape[:2], num_heads, -1).transpose(1, 2) for part in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def normalise_layer(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float) -> Tensor:
    """Apply the layer norm of ONNX."""
    return functional.layer_norm(x, gain.shape, gain, shift, epsilon)


def normalise_instance(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float) -> Tensor:
    """Apply the instance norm of ONNX."""
    return functional.layer_norm(x, x.shape[2:], eps=epsilon) * gain[:, None] + shift[:, None]


def slice_rows(x: Any, start: Sequence[int], end: Sequence[int], axes: Sequence[int] = (0,)) -> object:
    """x[start:end] along the first axis, of a tensor or of a shape."""
    assert list(axes) == [0]
    return x[start[0] : end[0]]


def gather(x: Any, places: Any, axis: int = 0) -> Tensor:
    """Return rows or columns of x by their places."""
    if isinstance(places, list):
        places = torch.tensor(places)
    found: Tensor = x[places] if axis == 0 else x.index_select(axis, places)
    return found


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Apply the reshape of ONNX: 0 keeps a size."""
    return x.reshape([x.shape[at] if size == 0 else size for at, size in enumerate(shape)])


def concatenate(*parts: Any, axis: int) -> Any:
    """Return tensors side by side, or one shape after the other."""
    if isinstance(parts[0], (list, torch.Size)):
        return [size for part in parts for size in part]
    return torch.cat(parts, axis)


def convolve(x: Tensor, kernel: Tensor, bias: Tensor, kernel_shape: Sequence[int], pads: Sequence[int]) -> Tensor:
    """Apply the convolution of ONNX."""
    return functional.conv2d(x, kernel, bias, padding=pads[0])


def pool(x: Tensor, kernel_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Apply the max pooling of ONNX."""
    return functional.max_pool2d(x, tuple(kernel_shape), tuple(strides))


OPERATORS: dict[str, Callable[..., object]] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "And": torch.logical_and,
    "ArgMax": lambda x, axis, keepdims: torch.argmax(x, axis, bool(keepdims)),
    "Cast": lambda x, to: x.to(DTYPES[to]),
    "Clip": lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
    "Concat": concatenate,
    "Conv": convolve,
    "Cos": torch.cos,
    "Div": torch.div,
    "Equal": torch.eq,
    "Exp": torch.exp,
    "Expand": lambda x, shape: x.expand(shape),
    "Flatten": lambda x, axis: x.flatten(axis),
    "Floor": torch.floor,
    "Gather": gather,
    "Gelu": functional.gelu,
    "Greater": torch.gt,
    "Identity": lambda x: x,
    "InstanceNormalization": normalise_instance,
    "IsNaN": torch.isnan,
    "LayerNormalization": normalise_layer,
    "Less": torch.lt,
    "Log": torch.log,
    "MatMul": torch.matmul,
    "Max": torch.maximum,
    "MaxPool": pool,
    "Min": torch.minimum,
    "Mod": torch.remainder,
    "Mul": torch.mul,
    "MultiHeadAttention": attend,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "ReduceL2": lambda x, axes, keepdims: torch.linalg.vector_norm(x, dim=axes, keepdim=bool(keepdims)),
    "ReduceMax": lambda x, axes, keepdims: torch.amax(x, axes, bool(keepdims)),
    "ReduceMean": lambda x, axes, keepdims: torch.mean(x, axes, bool(keepdims)),
    "ReduceSum": lambda x, axes, keepdims: torch.sum(x, axes, bool(keepdims)),
    "Relu": torch.relu,
    "Reshape": reshape,
    "Round": torch.round,
    "Shape": lambda x: x.shape,
    "Slice": slice_rows,
    "Sqrt": torch.sqrt,
    "Squeeze": lambda x, axes: x.squeeze(axes[0]),
    "Sub": torch.sub,
    "Where": torch.where,
}
