"""The graph of a classifier on exact statistics: features, random features, scores, temperature, confidence."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from online.errors import CannotExport
from online.models.classifier import Classifier
from online.models.contract import Tensors, unpack_json
from online.models.statistics.heads import ONE, HeadDecision
from online.models.statistics.projection import COSINES, FLOAT32_COLUMNS, TURN, Projection
from online.plugins.export.answers import Abstention, AnswerGraph, finish_classes, make_odds
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import Features, read_inputs


def build(model: Classifier, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the model. Raises CannotExport for a model that has learned nothing."""
    solved = model.state(serving_only=True)["weights"].tensors
    active_C = solved["active"]
    labels = [label for label, active in zip(model.statistics.classes, active_C.tolist(), strict=False) if active]
    if not labels:
        raise CannotExport("the model has learned no class yet")
    decided = HeadDecision.from_json(unpack_json(solved["meta"])["decided"])
    features = read_inputs(graph, model.inputs)
    scores, common = make_scores(graph, features, model.head.projection, solved, decided.head == "ridge")
    odds, best = make_odds(graph, scores, decided.temperature)
    best = graph.op("Add", best, common) if common else best
    below, spread = float(model.options["abstain_below"]), None if decided.head == "ridge" else decided.temperature
    abstention = Abstention(below, decided.confidence, best, spread) if below > 0 else None
    return finish_classes(graph, features.schema, odds, labels, retired, decided.temperature, abstention)


def make_scores(
    graph: ExportGraphBuilder, features: Features, projection: Projection, solved: Tensors, is_ridge: bool
) -> tuple[str, str]:
    """Return scores [B, A] of the active classes, and what all of them lack [B, 1]; "" if nothing.

    Those of slda are small differences of large numbers. They need more digits than int8 gives, and in float32 their mean over the
    classes is left out, which is most of each. A ridge head also reads the constant and the random features.
    """
    matrix_MA, bias_A = solved["matrix"][:, solved["active"]], solved["bias"][solved["active"]]
    if not is_ridge and graph.wide == "float32":
        return make_centred_scores(graph, features, matrix_MA.astype(np.float64), bias_A.astype(np.float64))
    if not is_ridge:
        matrix = graph.widen(graph.constant("matrix", features.arrange(matrix_MA), "float32"))
        return graph.add(graph.op("MatMul", graph.widen(features.value), matrix), "bias", bias_A, graph.wide), ""
    random_MA, value = matrix_MA[1 : 1 + projection.width], features.value
    weights_MA = features.arrange(matrix_MA[1 + projection.width :])
    if projection.width:
        value = graph.op("Concat", make_random_features(graph, features, projection), value, axis=1)
        weights_MA = np.concatenate([random_MA, weights_MA])
    return graph.add(graph.multiply(value, "matrix", weights_MA), "bias", bias_A + ONE * matrix_MA[0]), ""


def make_centred_scores(
    graph: ExportGraphBuilder, features: Features, matrix_MA: NDArray[np.float64], bias_A: NDArray[np.float64]
) -> tuple[str, str]:
    """Return scores [B, A] less their mean over the classes, in float32, and this mean [B, 1]."""
    mean_M1 = matrix_MA.mean(1, keepdims=True)
    scores = graph.exactly(graph.multiply(features.value, "matrix", features.arrange(matrix_MA - mean_M1)))
    common = graph.exactly(graph.multiply(features.value, "mean_column", features.arrange(mean_M1)))
    mean = bias_A.mean(keepdims=True)
    return graph.add(scores, "bias", bias_A - mean), graph.add(common, "mean_bias", mean)


def make_random_features(graph: ExportGraphBuilder, features: Features, projection: Projection) -> str:
    """[B, M] cosines by a table, as `Projection` computes them: exact products, one rounding of each step."""
    weights_DM: NDArray[np.float32] = features.arrange(projection.weights_DM)
    is_wide = len(projection.weights_DM) > FLOAT32_COLUMNS
    x, dtype = (graph.widen(features.value), graph.wide) if is_wide else (features.value, "float32")
    sums = graph.exactly(graph.multiply(x, "projection", weights_DM, dtype))
    turned = graph.add(graph.cast(sums, "float32") if is_wide else sums, "phase", projection.phase_M)
    steps = graph.op("Floor", graph.op("Mul", turned, graph.constant("steps", projection.steps_M, "float32")))
    place = graph.op("Mod", graph.cast(steps, "int64"), graph.constant("turn", TURN, "int64"))
    return graph.op("Gather", graph.constant("cosines", COSINES, "float32"), place)
