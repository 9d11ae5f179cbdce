"""safetensors: the constants of the graph by name, and its steps as JSON, for other runtimes.

metadata "online": {"description": ..., "inputs": [...], "outputs": [...], "steps": [[operator, inputs, output, attributes], ...]}

Each operator is the one of this name in ONNX, opset 20 (MultiHeadAttention: of com.microsoft). The steps are in an order in
which they can be computed.
"""

import json
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save
from torch import Tensor

from online.models.contract import AnyArray
from online.models.exchange.sums_file import read_texts
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.golden import Outputs, Runner
from online.plugins.export.manifest import METADATA_KEY, ExportDescription, describe
from online.plugins.export.torch_module import GraphModule, GraphOperator, Program, read_program


def write(graph: AnswerGraph, description: ExportDescription) -> bytes:
    """Write the file."""
    program = read_program(graph.model)
    content = {
        "description": describe(description),
        "inputs": program.inputs,
        "outputs": program.outputs,
        "steps": [[each.kind, each.inputs, each.output, dict(each.attributes)] for each in program.steps],
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=bytes.decode)
    tensors = {name: np.array(values, order="C") for name, values in program.constants.items()}
    return save(tensors, {METADATA_KEY: text})  # one key: their order in the file is not fixed


def load(data: bytes, description: ExportDescription) -> Runner:
    """Return answers by torch, one step after the other."""
    program = read_file(data)
    return run_with_torch(GraphModule(program), program)


def read_file(data: bytes) -> Program:
    """Read a file that `write` has written."""
    content = json.loads(read_texts(data)[METADATA_KEY])
    steps = tuple(
        GraphOperator(kind, tuple(inputs), output, attributes) for kind, inputs, output, attributes in content["steps"]
    )
    return Program(steps, load_tensors(data), tuple(content["inputs"]), tuple(content["outputs"]))


def run_with_torch(module: Callable[..., Iterable[Tensor]], program: Program) -> Runner:
    """module: takes the inputs in their order and returns the outputs in theirs."""

    def run(inputs: Mapping[str, AnyArray]) -> Outputs:
        with torch.no_grad():
            found = module(*(torch.from_numpy(inputs[name]) for name in program.inputs))
        return {name: values.numpy() for name, values in zip(program.outputs, found, strict=True)}

    return run
