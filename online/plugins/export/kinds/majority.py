"""The graph of class frequencies: the same chances for every input."""

from collections.abc import Collection

import numpy as np

from online.errors import CannotExport
from online.models.statistics.majority import Majority
from online.plugins.export.answers import AnswerGraph, finish_classes
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import ROWS, InputSchema, NumberScale


def build(model: Majority, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the model. Raises CannotExport for a model that has learned nothing."""
    (answer,) = model.predict([b""])
    if not answer.candidates:
        raise CannotExport("the model has learned no class yet")
    candidates = sorted(answer.candidates)  # equally frequent ones are answered in the order of the alphabet
    inputs = describe_inputs(model)
    rows = graph.op("Slice", graph.op("Shape", ROWS.name), graph.integers(0), graph.integers(1))
    shape = graph.op("Concat", rows, graph.integers(len(candidates)), axis=0)
    shares_1C = np.array([[candidate.score for candidate in candidates]])
    odds = graph.op("Expand", graph.constant("shares", shares_1C, graph.wide), shape)
    return finish_classes(graph, inputs, odds, [candidate.id for candidate in candidates], retired)


def describe_inputs(model: Majority) -> InputSchema:
    """Return the inputs of the graph, of which only the number of rows is read."""
    match model.input:
        case "text":
            return InputSchema("text", (ROWS,))
        case "vector":
            numbers = tuple(NumberScale(str(place), 0.0, 1.0) for place in range(model.options["size"]))
            return InputSchema("vector", (ROWS,), numbers)
        case _:
            return InputSchema("table", (ROWS,))
