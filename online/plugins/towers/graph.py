"""The graph of a tower: its running scales, its network, and the chances of the known classes.

Shapes: B rows, D columns, W inputs of the network, H width of a layer, C classes.
"""

from collections.abc import Collection, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from online.errors import CannotExport
from online.plugins.export.answers import AnswerGraph, finish_classes, make_odds
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import (
    CATEGORIES,
    NUMBERS,
    Features,
    NumberScale,
    describe_numbers,
    join,
    read_texts,
    split_missing,
)
from online.plugins.towers.layout import HEAD_BIAS, HEAD_WEIGHT
from online.plugins.towers.networks import EPSILON, Mlp
from online.plugins.towers.standard import LARGEST, TEXT_DEVIATION, WIDEST, InputScales
from online.plugins.towers.tower import Tower

Weights = Mapping[str, NDArray[np.float32]]
GROUPS = 4  # of the normalisations of a cnn


def build(model: Tower, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the model. Raises CannotExport for a tower that has learned nothing, or whose network is code of its operator."""
    solved = model.state(serving_only=True)["weights"].tensors
    known_C = solved["known"][: len(model.labels)]
    labels = [label for label, known in zip(model.labels, known_C.tolist(), strict=True) if known]
    if not labels or not len(solved["row"]):
        raise CannotExport("the model has learned no class yet")
    views = model.layout.views(torch.tensor(solved["row"])[None])
    weights = {name: tensor[0].numpy() for name, tensor in views.items()}
    features = scale_inputs(graph, model.standard)
    h = run_network(graph, features, model, weights)
    head_HC, bias_C = weights[HEAD_WEIGHT][:, : len(known_C)][:, known_C], weights[HEAD_BIAS][: len(known_C)][known_C]
    logits = graph.add(graph.multiply(h, HEAD_WEIGHT, head_HC), HEAD_BIAS, bias_C)
    odds, _ = make_odds(graph, logits)
    return finish_classes(graph, features.schema, odds, labels, retired)


def scale_inputs(graph: ExportGraphBuilder, standard: InputScales) -> Features:
    """Return what the network reads [B, D], as `Standard.scaled`."""
    if standard.input == "text":
        features = read_texts(graph)
        scaled = graph.op("Div", features.value, graph.constant("text_deviation", TEXT_DEVIATION, "float32"))
        return Features(scaled, features.order, features.schema)
    numbers, categories = np.flatnonzero(standard.numeric), np.flatnonzero(~standard.numeric)
    names = list(standard.columns)
    blocks = [scale_numbers(graph, standard, numbers)] if len(numbers) else []
    blocks += [CATEGORIES] if len(categories) else []
    scales = tuple(
        NumberScale(names[place], float(standard.mean[place]), float(np.sqrt(standard.variance[place])))
        for place in numbers
    )
    overflow = any(name.startswith("overflow-") for name in names)
    schema = describe_numbers(
        standard.input == "table", graph.wide, scales, tuple(names[place] for place in categories), overflow
    )
    return Features(join(graph, blocks), np.concatenate([numbers, categories]), schema)


def scale_numbers(graph: ExportGraphBuilder, standard: InputScales, numbers: NDArray[np.intp]) -> str:
    """Return numbers [B, N] of mean 0 and variance 1; 0 where one is missing."""
    x, present = NUMBERS, None
    if standard.input == "table":
        x, present = split_missing(graph, NUMBERS)
    farthest = LARGEST if graph.wide == "float64" else float(np.finfo(np.float32).max)
    away = graph.op(
        "Sub", graph.clip(x, "largest", farthest), graph.constant("means", standard.mean[numbers], graph.wide)
    )
    variance_N = standard.variance[numbers]
    deviation_N = np.where(variance_N > 0, np.sqrt(variance_N), np.inf)  # a constant column has no information
    scaled = graph.op("Div", away, graph.constant("deviations", deviation_N, graph.wide))
    near = graph.cast(graph.clip(scaled, "widest", WIDEST), "float32")
    return near if present is None else graph.op("Mul", near, present)


def run_network(graph: ExportGraphBuilder, features: Features, model: Tower, weights: Weights) -> str:
    """Return the representation [B, H]."""
    network = model.options["network"]
    if network == "mlp":
        assert isinstance(model.layout.network, Mlp)
        return run_mlp(graph, features, model.layout.network, weights)
    if network == "cnn":
        return run_cnn(graph, features.value, model.options["image"], weights)
    raise CannotExport(
        f"its network {network!r} is code of its own, which only Python can run; mlp and cnn can be exported"
    )


def run_mlp(graph: ExportGraphBuilder, features: Features, network: Mlp, weights: Weights) -> str:
    """Append the hidden layers of an MLP."""
    h = features.value
    for layer in range(len(network.hidden)):
        weight, bias, gain, shift = (weights[f"{layer}.{name}"] for name in ("weight", "bias", "gain", "shift"))
        product = graph.multiply(h, f"{layer}.weight", features.arrange(weight) if not layer else weight)
        product = graph.add(product, f"{layer}.bias", bias)
        h = graph.op("Relu", normalise(graph, product, f"{layer}", gain, shift))
    return h


def normalise(
    graph: ExportGraphBuilder, x: str, name: str, gain: NDArray[np.float32], shift: NDArray[np.float32]
) -> str:
    """Append a layer norm."""
    gain_name = graph.constant(f"{name}.gain", gain, "float32")
    shift_name = graph.constant(f"{name}.shift", shift, "float32")
    return graph.op("LayerNormalization", x, gain_name, shift_name, epsilon=EPSILON)


def run_cnn(graph: ExportGraphBuilder, x: str, image: list[int], weights: Weights) -> str:
    """Append the layers of a CNN."""
    x = graph.op("Reshape", x, graph.constant("shape_of_image", [-1, *image], "int64"))
    for name in ("first", "second"):
        x = run_convolution(graph, x, name, weights)
    flat = graph.op("Flatten", x, axis=1)
    product = graph.add(
        graph.multiply(flat, "last.weight", weights["last.weight"].T), "last.bias", weights["last.bias"]
    )
    normal = normalise(graph, product, "last_norm", weights["last_norm.weight"], weights["last_norm.bias"])
    return graph.op("Relu", normal)


def run_convolution(graph: ExportGraphBuilder, x: str, name: str, weights: Weights) -> str:
    """Return a 3x3 convolution, its normalisation in groups, and pooling by 2."""
    kernel = graph.constant(f"{name}.weight", weights[f"{name}.weight"], "float32")
    bias = graph.constant(f"{name}.bias", weights[f"{name}.bias"], "float32")
    found = graph.op("Conv", x, kernel, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    grouped = graph.op("Reshape", found, graph.constant("shape_of_groups", [0, GROUPS, -1], "int64"))
    one, zero = (graph.constant(f"groups_of_{value}", [value] * GROUPS, "float32") for value in (1, 0))
    normal = graph.op("InstanceNormalization", grouped, one, zero, epsilon=EPSILON)
    normal = graph.op("Reshape", normal, graph.op("Shape", found))
    gain, shift = (weights[f"{name}_norm.{part}"][:, None, None] for part in ("weight", "bias"))
    scaled = graph.op("Mul", normal, graph.constant(f"{name}_norm.gain", gain, "float32"))
    shifted = graph.add(scaled, f"{name}_norm.shift", shift)
    return graph.op("MaxPool", graph.op("Relu", shifted), kernel_shape=[2, 2], strides=[2, 2])
