"""The formats in which a version can be written: one entry of this table and one module each.

A module has `write(graph, description) -> bytes`, and `load(bytes, description) -> Runner`, which answers with the written file. Neither is
imported before its format is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast

from online.errors import BadInput
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.golden import Runner
from online.plugins.export.graph import Wide
from online.plugins.export.manifest import ExportDescription


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """file: the name of the exported file. wide: the type of numbers that must not lose digits. extra: of this package, that
    the format needs; "" for none. scope: what a caller needs to read such a file. version: of how the file is written, which is
    increased when the same version of a model gives other bytes. is_quantised: whether some weights are stored in int8.
    """

    name: str
    file: str
    module: str
    help: str
    wide: Wide = "float64"
    extra: str = ""
    scope: Literal["predict", "curate"] = "predict"
    version: int = 3
    is_quantised: bool = False

    @property
    def write(self) -> Callable[[AnswerGraph, ExportDescription], bytes]:
        """Raises CannotExport where the format cannot hold the graph, or its extra is not installed."""
        return cast(Callable[[AnswerGraph, ExportDescription], bytes], import_module(self.module).write)

    def count_int8(self, graph: AnswerGraph) -> int | None:
        """Return products by matrices of int8, and look-ups in them; None for a format that has none."""
        return len(import_module(self.module).find_products(graph)) if self.is_quantised else None

    @property
    def load(self) -> Callable[[bytes, ExportDescription], Runner]:
        """The function that opens a written file for comparison."""
        return cast(Callable[[bytes, ExportDescription], Runner], import_module(self.module).load)


HERE = __name__
FORMATS: dict[str, ExportFormat] = {
    each.name: each
    for each in (
        ExportFormat("onnx", "model.onnx", f"{HERE}.onnx_file", "For every ONNX Runtime; the served answer to 1e-4."),
        ExportFormat(
            "onnx-int8",
            "model.int8.onnx",
            f"{HERE}.quantised",
            "The same with weights of 8 bits: a quarter of the size, and answers that differ a little.",
            is_quantised=True,
        ),
        ExportFormat(
            "safetensors",
            "model.safetensors",
            f"{HERE}.tensors",
            "The weights by name, and as JSON the steps that use them, for a runtime of your own.",
        ),
        ExportFormat(
            "executorch", "model.pte", f"{HERE}.device", "For ExecuTorch on phones and boards.", extra="executorch"
        ),
        ExportFormat(
            "litert",
            "model.tflite",
            f"{HERE}.lite",
            "For LiteRT (TensorFlow Lite), in float32.",
            wide="float32",
            extra="litert",
        ),
    )
}


def find_format(name: str) -> ExportFormat:
    """Return the format of a name. Raises BadInput that lists the formats."""
    found = FORMATS.get(name)
    if found is None:
        raise BadInput(f"there is no export format {name[:40]!r}; use one of {', '.join(FORMATS)}")
    return found
