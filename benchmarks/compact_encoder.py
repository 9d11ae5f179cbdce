"""What the compact text encoder costs: its bytes, vectors and answers beside those of the service's encoder.

    python -m benchmarks.compact_encoder [--questions 1500] [--json]

A classifier learns the validation questions of CLINC150 (20 of each of 150 intents) with the service's features, and answers
test questions with those of each encoder, as a browser does that has the weights of the service. Dynamic quantisation by ONNX
Runtime, which rounds activations too, stands beside it.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.clinc150 import examples_of, read_questions, split
from benchmarks.report import command, create_parser, print_json, progress, table
from online.io.cache import cache_folder
from online.models import Model, create
from online.models.encoders import minilm
from online.models.encoders.text import quantise
from online.plugins.export.compact import compact_file

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Result:
    """cosine: of vectors with the service's. same_ratio: questions answered as with the service's features."""

    encoder: str
    megabytes: float
    cosine_mean: float
    cosine_min: float
    same_ratio: float
    accuracy: float
    ms: float


def write_encoders(folder: Path) -> dict[str, Path]:
    whole = minilm.onnx_file(cache_folder())
    dynamic = folder / "dynamic.onnx"
    floats = {"DefaultTensorType": onnx.TensorProto.FLOAT}  # of operations that shape inference does not know
    quantize_dynamic(whole, dynamic, per_channel=True, weight_type=QuantType.QInt8, extra_options=floats)
    return {"float (the service's)": whole, "compact": compact_file(cache_folder()), "dynamic quantisation": dynamic}


def encode(path: Path, texts: Sequence[str]) -> tuple[Vectors, float]:
    """Vectors [N, 384], and the median time of one in ms."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session, tokenizer = onnxruntime.InferenceSession(str(path), options), minilm.tokenizer()
    vectors, times = [], []
    for text in progress(texts, path.stem):
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        started = perf_counter()
        vectors.append(session.run(None, {"ids": ids})[0][0])
        times.append(1000 * (perf_counter() - started))
    return np.stack(vectors), median(times)


def answer(model: Model, vectors: Vectors) -> NDArray[np.str_]:
    answers = model.predict([row.tobytes() for row in quantise(vectors)])
    return np.array([each.choice for each in answers])


def measure(flags: Namespace) -> list[Result]:
    texts, labels = zip(*read_questions("test")[:: max(1, 4_500 // flags.questions)], strict=True)
    model = create("classifier", {})
    model.learn(examples_of(split("val")))
    results = list[Result]()
    with TemporaryDirectory() as folder:
        for name, path in write_encoders(Path(folder)).items():
            vectors, ms = encode(path, texts)
            choices = answer(model, vectors)
            if not results:
                served, given = vectors, choices
            cosines = (vectors * served).sum(1)
            same, right = float(np.mean(choices == given)), float(np.mean(choices == np.array(labels)))
            size = path.stat().st_size / 1e6
            results.append(Result(name, size, float(cosines.mean()), float(cosines.min()), same, right, ms))
    return results


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--questions", type=int, default=1_500, help="test questions (default 1500)")
    flags = parser.parse_args()
    results = measure(flags)
    if flags.json:
        print_json({"encoders": [asdict(result) for result in results]})
        return 0
    rows = [
        (
            r.encoder,
            f"{r.megabytes:.1f}",
            f"{r.cosine_mean:.4f}",
            f"{r.cosine_min:.4f}",
            f"{100 * r.same_ratio:.1f}",
            f"{100 * r.accuracy:.1f}",
            f"{r.ms:.1f}",
        )
        for r in results
    ]
    columns = ("encoder", "MB", "cosine mean", "cosine min", "same answers %", "accuracy %", "ms")
    table("Encoders of texts for other devices, CLINC150", columns, rows)
    return 0


if __name__ == "__main__":
    command(run)
