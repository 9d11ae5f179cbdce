"""The last nodes of a graph of classes: from odds to chances, the choice, and whether the model abstains.

    odds [B, A] of the active classes -> without retired ones -> chances [B, K], choice [B], confidence [B]

Shapes: B inputs, A active classes, K classes that may be answered.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from online.errors import CannotExport
from online.models.statistics.calibration import Confidence
from online.plugins.export.graph import ExportGraphBuilder, GraphTensor
from online.plugins.export.inputs import InputSchema


@dataclass(frozen=True, slots=True)
class AnswerGraph:
    """The served answer as a graph. classes: what the columns of `chances` mean; empty for numbers.

    temperature: by which scores are divided; None where a kind has none. exact_nodes: the products that int8 leaves alone.
    """

    model: onnx.ModelProto
    inputs: InputSchema
    outputs: tuple[GraphTensor, ...]
    classes: tuple[str, ...] = ()
    temperature: float | None = None
    abstain_below: float = 0.0
    exact_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abstention:
    """The condition under which a model abstains. below: the least confidence. best: value [B, 1] of the highest score.

    spread: the temperature under which the familiarity of an input is its evidence; None if it is the highest score.
    """

    below: float
    confidence: Confidence
    best: str
    spread: float | None


def make_odds(graph: ExportGraphBuilder, scores: str, temperature: float = 1.0) -> tuple[str, str]:
    """exp((score - highest) / temperature) [B, A], and the highest score [B, 1], both in `wide`."""
    wide = graph.widen(scores)
    best = graph.reduce("ReduceMax", wide)
    ahead = graph.op("Sub", wide, best)
    if temperature != 1:
        ahead = graph.op("Div", ahead, graph.scalar("temperature", temperature))
    return graph.op("Exp", ahead), best


def finish_classes(
    graph: ExportGraphBuilder,
    inputs: InputSchema,
    odds: str,
    labels: Sequence[str],
    retired: Collection[str],
    temperature: float | None = None,
    abstention: Abstention | None = None,
) -> AnswerGraph:
    """Append the answer. labels: of the active classes. Raises CannotExport if none may be answered."""
    kept = [place for place, label in enumerate(labels) if label not in retired]
    if not kept:
        raise CannotExport("the model has no class to answer: it has learned none, or all of them are retired")
    total = graph.reduce("ReduceSum", odds)
    chances = share_odds(graph, odds, total, kept, len(labels))
    choice = graph.op("ArgMax", chances, axis=1, keepdims=0)
    outputs = [
        (
            GraphTensor("chances", "float32", ("B", len(kept)), "The probability of each class."),
            graph.cast(chances, "float32"),
        )
    ]
    if abstention is not None:
        confidence = make_confidence(graph, total, abstention)
        is_low = graph.op("Less", confidence, graph.scalar("abstain_below", abstention.below))
        if len(kept) < len(labels):
            is_low = graph.op("Or", is_low, lacks_replacement(graph, odds, total, kept, len(labels)))
        choice = graph.op("Where", is_low, graph.constant("abstained", -1, "int64"), choice)
        meaning = "The probability that the likeliest class is right."
        outputs.append((GraphTensor("confidence", "float32", ("B",), meaning), graph.cast(confidence, "float32")))
    meaning = "The place of the answer among the classes" + ("; -1: the model abstains." if abstention else ".")
    outputs.append((GraphTensor("choice", "int64", ("B",), meaning), choice))
    return AnswerGraph(
        graph.finish(inputs.tensors, outputs),
        inputs,
        tuple(spec for spec, _ in outputs),
        tuple(labels[place] for place in kept),
        temperature,
        abstention.below if abstention else 0.0,
        tuple(graph.exact_nodes),
    )


def share_odds(graph: ExportGraphBuilder, odds: str, total: str, kept: Sequence[int], count: int) -> str:
    """Return chances [B, K]: the odds of the classes that are kept, divided by their sum; equal ones if all are 0."""
    if len(kept) == count:
        return graph.op("Div", odds, total)
    remaining = graph.op("Gather", odds, graph.constant("kept", kept, "int64"), axis=1)
    sum_B1 = graph.reduce("ReduceSum", remaining)
    is_possible = graph.op("Greater", sum_B1, graph.scalar("zero", 0))
    shares = graph.op("Div", remaining, graph.op("Where", is_possible, sum_B1, graph.scalar("one", 1)))
    return graph.op("Where", is_possible, shares, graph.scalar("equal_share", 1 / len(kept)))


def lacks_replacement(graph: ExportGraphBuilder, odds: str, total: str, kept: Sequence[int], count: int) -> str:
    """[B] whether the likeliest class is retired and the next one is not likely enough among all classes."""
    is_retired = np.ones(count)
    is_retired[list(kept)] = 0
    best = graph.op("ArgMax", odds, axis=1, keepdims=0)
    replaced = graph.op("Gather", graph.constant("is_retired", is_retired, graph.wide), best)
    remaining = graph.op("Gather", odds, "kept", axis=1)
    chance = graph.flatten(graph.op("Div", graph.reduce("ReduceMax", remaining), total))
    is_unlikely = graph.op("Less", chance, "abstain_below")
    return graph.op("And", graph.op("Greater", replaced, "zero"), is_unlikely)


def make_confidence(graph: ExportGraphBuilder, total: str, abstention: Abstention) -> str:
    """`Confidence` [B] of the likeliest class."""
    fit = abstention.confidence
    one, tiny = graph.scalar("one", 1), graph.scalar("tiny", 1e-9)
    chance = graph.op("Div", one, total)
    doubt = graph.op("Sub", graph.op("Add", one, tiny), graph.op("Min", chance, one))
    odds = graph.op("Sub", graph.op("Log", graph.op("Add", chance, tiny)), graph.op("Log", doubt))
    familiarity = abstention.best
    if abstention.spread is not None:
        scaled = graph.op("Div", familiarity, graph.scalar("temperature", abstention.spread))
        familiarity = graph.op("Add", scaled, graph.op("Log", total))
    away = graph.op("Sub", familiarity, graph.scalar("familiarity_centre", fit.centre))
    strange = graph.op("Div", away, graph.scalar("familiarity_spread", fit.spread))
    terms = [
        graph.op("Mul", graph.clip(value, "evidence", 12), graph.scalar(f"weight_of_{name}", weight))
        for name, value, weight in (("odds", odds, fit.weights[1]), ("familiarity", strange, fit.weights[2]))
    ]
    logit = graph.op("Add", graph.op("Add", *terms), graph.scalar("weight_of_one", fit.weights[0]))
    falling = graph.op("Exp", graph.op("Neg", graph.clip(logit, "logit", 30)))
    return graph.flatten(graph.op("Div", one, graph.op("Add", one, falling)))
