"""The graph of a logistic regression: the constant, waves, columns, and their product with the weights."""

from collections.abc import Collection

import numpy as np

from online.errors import CannotExport
from online.models.logistic import UNIT, Logistic
from online.plugins.export.answers import AnswerGraph, finish_classes, make_odds
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import read_columns


def build(model: Logistic, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the model. Raises CannotExport for a model that has learned nothing."""
    if not model.labels:
        raise CannotExport("the model has learned no class yet")
    features = read_columns(graph, model.columns, model.input == "table")
    count, wide = model.options["waves"], graph.wide
    one_C, waves_CK, columns_CD = np.split(model.mean, [1, 1 + count], axis=1)
    x = graph.op("Div", graph.widen(features.value), graph.scalar("unit", UNIT))
    weights_XC = features.arrange(columns_CD.T)
    if count:
        turned = graph.multiply(x, "frequencies", features.arrange(model.frequencies_NK), wide)
        waves = graph.op("Cos", graph.add(turned, "phases", model.phases_K, wide))
        x = graph.op("Concat", graph.op("Mul", waves, graph.scalar("amplitude", model.amplitude)), x, axis=1)
        weights_XC = np.concatenate([waves_CK.T, weights_XC])
    scores = graph.add(graph.multiply(x, "weights", weights_XC, wide), "bias", one_C[:, 0], wide)
    odds, _ = make_odds(graph, scores)
    return finish_classes(graph, features.schema, odds, model.labels, retired)
