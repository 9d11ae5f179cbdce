"""ExecuTorch: the graph as a torch program, lowered for XNNPACK, for phones and boards.

It answers one row at a time, or one text of 2 to 256 tokens. Inputs and outputs have no names: they follow each other as in the
manifest.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from online.errors import CannotExport
from online.models.contract import AnyArray
from online.models.encoders.minilm import MAX_TOKENS
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.golden import Runner, run_by_rows
from online.plugins.export.graph import GraphTensor
from online.plugins.export.manifest import ExportDescription
from online.plugins.export.torch_module import GraphModule, read_program

DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}
TRACED_TOKENS = 8


def write(graph: AnswerGraph, description: ExportDescription) -> bytes:
    """Write the file. Raises CannotExport if a library is not installed."""
    require_extra("executorch", "executorch")
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = trace(graph)
    return bytes(to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch().buffer)


def require_extra(name: str, package: str) -> None:
    """Raise CannotExport if the package of an extra is not installed."""
    if importlib.util.find_spec(package) is None:
        raise CannotExport(f"the format {name} needs an extra, which is not installed: pip install 'online[{name}]'")


def trace(graph: AnswerGraph) -> torch.export.ExportedProgram:
    """Return the graph as a torch program, for one row, or for one text of any length."""
    specs = graph.inputs.tensors
    module = GraphModule(read_program(graph.model)).eval()
    shapes = tuple(free_dimensions(spec) for spec in specs)
    return torch.export.export(module, example_inputs(specs), dynamic_shapes={"inputs": shapes})


def example_inputs(specs: Sequence[GraphTensor]) -> tuple[torch.Tensor, ...]:
    """Return inputs to trace with."""
    sizes = {"B": 1, "T": TRACED_TOKENS}
    return tuple(
        torch.ones([sizes[size] if isinstance(size, str) else size for size in spec.shape], dtype=DTYPES[spec.dtype])
        for spec in specs
    )


def free_dimensions(spec: GraphTensor) -> dict[int, object]:
    """Return the dimensions that differ from call to call: the number of tokens."""
    return {at: torch.export.Dim("T", min=2, max=MAX_TOKENS) for at, size in enumerate(spec.shape) if size == "T"}


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program in memory. The runtime reads `data` and `program` as long as the method is in use, and owns neither."""

    data: bytes
    program: Any
    method: Any

    def answer(self, row: Sequence[AnyArray]) -> list[AnyArray]:
        """Answer one row."""
        return [each.numpy().copy() for each in self.method.execute([torch.from_numpy(each.copy()) for each in row])]


def load(data: bytes, description: ExportDescription) -> Runner:
    """Return answers by ExecuTorch's runtime for Python."""
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(data)
    return run_by_rows(LoadedProgram(data, program, program.load_method("forward")).answer, description)
