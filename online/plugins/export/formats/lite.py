"""LiteRT (TensorFlow Lite): the graph as a torch program, converted, in float32 and with int32 for places.

It answers one row at a time. Inputs are named args_0, args_1, ... and outputs output_0, output_1, ..., in the order of the
manifest.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from online.errors import CannotExport
from online.models.contract import AnyArray
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.formats.device import example_inputs, require_extra
from online.plugins.export.golden import Runner, run_by_rows
from online.plugins.export.manifest import ExportDescription
from online.plugins.export.torch_module import GraphModule, read_program


def write(graph: AnswerGraph, description: ExportDescription) -> bytes:
    """Write the file. Raises CannotExport for texts, or if a library is not installed."""
    if graph.inputs.kind == "text":
        raise CannotExport("the format litert fixes the size of every input, and texts have any number of tokens")
    require_extra("litert", "litert_torch")
    import litert_torch

    module = GraphModule(read_program(graph.model)).eval()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):  # where the converter shows its progress
        path = Path(folder) / "model.tflite"
        litert_torch.convert(module, example_inputs(graph.inputs.tensors)).export(str(path))
        return path.read_bytes()


def load(data: bytes, description: ExportDescription) -> Runner:
    """Return answers by LiteRT's interpreter."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)
    run = interpreter.get_signature_runner()

    def answer(row: Sequence[AnyArray]) -> list[AnyArray]:
        found = run(**{f"args_{place}": values for place, values in enumerate(row)})
        return [found[f"output_{place}"] for place in range(len(found))]

    return run_by_rows(answer, description)
