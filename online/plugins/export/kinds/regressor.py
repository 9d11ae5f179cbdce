"""The graph of a regressor: the number, and the interval around it, on the grid of the targets."""

from collections.abc import Collection

import numpy as np

from online.errors import CannotExport
from online.models.contract import Tensors
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.graph import ExportGraphBuilder, GraphTensor
from online.plugins.export.inputs import Features, read_inputs
from online.plugins.regression.regressor import Regressor
from online.plugins.regression.tracking.members import PRODUCT_QUANTA
from online.plugins.regression.tracking.reach import student_t
from online.plugins.regression.wide_targets import GRID_BITS


def build(model: Regressor, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the model. Raises CannotExport for a model that has learned nothing."""
    solved = model.state(serving_only=True)["weights"].tensors
    count = int(solved["scalars"][0])
    if not count:
        raise CannotExport("the model has learned no number yet")
    features = read_inputs(graph, model.inputs)
    x = graph.widen(features.value)
    mean, deviation = solve(graph, features, x, solved)
    if "follow_weights" in solved:
        mean, deviation = follow(graph, features, x, solved, mean, deviation)
    outputs = [(GraphTensor("number", graph.wide, ("B",), "The predicted number."), to_number(graph, mean, model))]
    if count > 1:
        t = student_t(model.options["level"], count - 1)
        wide_reach = graph.op("Mul", deviation, graph.scalar("reach_of_deviation", t))
        reach = graph.op("Max", wide_reach, graph.scalar("least_reach", model.least_reach))
        for name, kind in (("low", "Sub"), ("high", "Add")):
            bound = to_number(graph, graph.op(kind, mean, reach), model)
            outputs.append((GraphTensor(name, graph.wide, ("B",), f"The {name} end of the interval."), bound))
    specs = tuple(spec for spec, _ in outputs)
    return AnswerGraph(graph.finish(features.schema.tensors, outputs), features.schema, specs)


def solve(graph: ExportGraphBuilder, features: Features, x: str, solved: Tensors) -> tuple[str, str]:
    """Return the mean and its standard deviation [B, 1], in quanta, as `Ridge.predict`."""
    count, intercept, noise, _ = solved["scalars"].tolist()
    away = graph.op("Sub", x, graph.constant("mean", features.arrange(solved["mean"]), graph.wide))
    weighted = graph.multiply(away, "weights", features.arrange(solved["weights"])[:, None], graph.wide)
    mean = graph.op("Add", weighted, graph.scalar("intercept", intercept))
    spread = graph.widen(graph.constant("spread", features.arrange(solved["spread"]), "float32"))
    along = graph.op("MatMul", away, spread)
    leverage = graph.reduce("ReduceSum", graph.op("Mul", along, along))
    variance = graph.op("Add", leverage, graph.scalar("own_variance", 1 + 1 / max(count, 1.0)))
    return mean, graph.op("Sqrt", graph.op("Mul", variance, graph.scalar("noise", noise)))


def follow(
    graph: ExportGraphBuilder, features: Features, x: str, solved: Tensors, mean: str, deviation: str
) -> tuple[str, str]:
    """Return the same after the correction by the newest examples, as `Correction.apply`."""
    share, intercept, reach = solved["follow_scalars"].tolist()
    products_2P = solved["follow_products"]
    known = len(solved["follow_weights"]) - products_2P.shape[1]
    own, of_products = solved["follow_weights"][:known], solved["follow_weights"][known:]
    weighted = graph.multiply(x, "follow_weights", features.arrange(own)[:, None], graph.wide)
    if products_2P.size:
        place_of = np.argsort(features.order)
        first, second = (
            graph.op("Gather", x, graph.constant(f"product_{name}", place_of[places], "int64"), axis=1)
            for name, places in zip(("first", "second"), products_2P, strict=True)
        )
        products = graph.op("Div", graph.op("Mul", first, second), graph.scalar("product_quanta", PRODUCT_QUANTA))
        added = graph.multiply(products, "product_weights", of_products[:, None], graph.wide)
        weighted = graph.op("Add", weighted, added)
    corrected = graph.op("Add", weighted, graph.scalar("follow_intercept", intercept))
    shared = graph.op("Mul", mean, graph.scalar("follow_share", share))
    return graph.op("Add", shared, corrected), graph.op("Mul", deviation, graph.scalar("follow_reach", reach))


def to_number(graph: ExportGraphBuilder, quanta: str, model: Regressor) -> str:
    """Return quanta [B, 1] as numbers [B] on the grid of the targets, as `Regressor._number`."""
    target, bits = model.target, GRID_BITS if model.is_fine else 0
    near = graph.clip(quanta, "farthest", model.farthest)
    steps = graph.op("Mul", near, graph.scalar("grid", 2.0**bits)) if bits else near
    moved = graph.op("Add", graph.op("Round", steps), graph.scalar("target_centre", target.centre << bits))
    quantum = float(np.ldexp(1.0, -target.exponent - bits))
    return graph.flatten(graph.op("Mul", moved, graph.scalar("target_quantum", quantum)))
