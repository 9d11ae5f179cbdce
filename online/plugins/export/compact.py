"""The text encoder as a small download: its weights in int8, a quarter of the bytes, for a browser or a phone.

    float32 weights --round each row or column by its own scale--> int8, float32 scales        23 MB where 91 MB were
    int8 --Cast, Mul: ONNX Runtime computes them once, when it loads the file--> float32 weights

Only the weights are rounded. Activations stay in float, so a device's vectors are within a hundredth of the service's
(`benchmarks/compact_encoder.py`), but not the same: sums of both must not be mixed, so they have another epoch.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from online.models.encoders import minilm

LARGEST = 127
KEPT = 2  # tuned encoders: the present one, and the one before for devices that still load it
IN_USE_NS = 600 * 10**9  # files used so recently are not deleted: a request may have found one and not opened it yet
VERSION = 1  # part of the epoch and of the file's name: increase it when weights are rounded otherwise


class CompactGraph(minilm.GraphBuilder):
    """Stores matrices in int8. Each output of a linear layer, and each row of an embedding, has its own scale."""

    def weight(self, name: str, transpose: bool = False) -> str:
        """Add a weight, a matrix as int8 with a scale for each row or column, and return the name of its float value."""
        tensor = self.weights[name]
        if tensor.ndim < 2:
            return super().weight(name)
        matrix = tensor.T if transpose else tensor
        axis = 0 if transpose else 1
        quantised, scales = quantise(matrix, axis)
        self.constants[f"{name}.int8"], self.constants[f"{name}.scale"] = quantised, scales
        return self.op("Mul", self.op("Cast", f"{name}.int8", to=TensorProto.FLOAT), f"{name}.scale")

    def embed_words(self, ids: str) -> str:
        """Only the rows of the words in the text are turned into floats."""
        name = "embeddings.word_embeddings.weight"
        quantised, scales = quantise(self.weights[name], 1)
        self.constants[f"{name}.int8"], self.constants[f"{name}.scale"] = quantised, scales
        rows = self.op("Cast", self.op("Gather", f"{name}.int8", ids), to=TensorProto.FLOAT)
        return self.op("Mul", rows, self.op("Gather", f"{name}.scale", ids))


def quantise(
    matrix: NDArray[np.float32], axis: int, largest: int = LARGEST
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers of at most `largest` and scales whose product is closest to the matrix. axis: along which numbers share a scale."""
    scales = np.maximum(np.abs(matrix).max(axis, keepdims=True), np.float32(1e-30)) / np.float32(largest)
    return np.ascontiguousarray(np.rint(matrix / scales).astype(np.int8)), scales


def compact_epoch(tuned: str = "") -> str:
    """Return the epoch of features by the compact encoder, or by a tuned one with this sha256."""
    return f"minilm-{(tuned or minilm.WEIGHTS_SHA256)[:8]}-compact{VERSION}-{minilm.GRAPH_VERSION}"


def compact_file(folder: Path, tuned: Path | None = None) -> Path:
    """Return the compact encoder on disk, written at the first use, beside that of the tuning before. Raises what `minilm.onnx_file` raises.

    folder: of one model, unless the encoder is not tuned.
    """
    if found := find_compact_file(folder, tuned):
        return found
    path = name_compact_file(folder, tuned)
    weights = minilm.read_tuned(tuned) if tuned else minilm.read_weights(minilm.package_folder())
    model = minilm.build_graph(weights, CompactGraph)
    minilm.write_atomically(path, model.SerializeToString())
    remove_older(folder, path)
    return path


def find_compact_file(folder: Path, tuned: Path | None = None) -> Path | None:
    """Return the file if it is written already. It counts as used now: the time of access is the last use."""
    path = name_compact_file(folder, tuned)
    try:
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    except FileNotFoundError:
        return None
    return path


def name_compact_file(folder: Path, tuned: Path | None) -> Path:
    """Return the path of the compact encoder."""
    return folder / f"{compact_epoch(tuned.stem if tuned else '')}.onnx"


def remove_older(folder: Path, newest: Path) -> None:
    """Delete what earlier tunings have left: all but the one used last before, and none that may be sent still."""
    untuned = name_compact_file(folder, None)
    found = {path: used_at(path) for path in folder.glob("minilm-*-compact*.onnx") if path not in (untuned, newest)}
    by_use = sorted(found, key=lambda path: (found[path], path.name), reverse=True)
    for path in by_use[KEPT - (newest != untuned) :]:
        if found[path] < time.time_ns() - IN_USE_NS:
            path.unlink(missing_ok=True)


def used_at(path: Path) -> int:
    """Return nanoseconds; 0 for a file that another process has deleted."""
    with suppress(FileNotFoundError):
        return path.stat().st_atime_ns
    return 0
