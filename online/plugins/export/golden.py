"""Compares an exported file with the served model, on inputs that follow from the version alone.

probes of the model + seeded random inputs --served--------------------------> answers -+
                                           --exported: one by one, and together--> answers -+--> largest difference, equal choices
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, AnyArray, Model
from online.models.encoders import minilm
from online.models.encoders.values import Value, parse_row
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.inputs import InputSchema
from online.plugins.export.manifest import ExportAccuracy, ExportDescription
from online.schemas.json_values import JSON, JSONArray

RANDOM_ROWS, RANDOM_TEXTS = 256, 64
MOST_LABELLED = 512
SAME_NUMBER = 0.01  # relative difference of two numbers up to which they count as the same
SEED = 19
WORDS_FROM, WORDS_UNTIL = 2_000, 8_000  # token ids of whole English words, the frequent ones first

Outputs = Mapping[str, AnyArray]
RowOutputs = dict[str, AnyArray]  # of one row: each is a number or a vector
Runner = Callable[[Mapping[str, AnyArray]], Outputs]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model and what it needs to answer instances. encode: instances -> the bytes that it reads."""

    model: Model
    encode: Callable[[Sequence[JSON]], list[bytes]]

    def answer(self, instances: Sequence[object]) -> list[Answer]:
        """Answer instances with the served model."""
        return self.model.predict(self.encode(instances))


def measure(
    served: ServedModel, graph: AnswerGraph, run: Runner, labelled: Sequence[tuple[bytes, str]] = ()
) -> ExportAccuracy:
    """labelled: encoded inputs with their right classes. Texts cannot be read back from these."""
    golden = [*read_probes(served.model, graph.inputs), *draw_instances(graph.inputs)]
    answers = served.answer(golden)
    found = [ask_alone(graph, run, golden), ask_together(graph, run, golden)]
    scale = max((abs(float(each.choice)) for each in answers if each.choice), default=1.0) if not graph.classes else 1.0
    differences = [
        find_difference(graph, *pair) / (scale or 1.0) for each in found for pair in zip(answers, each, strict=True)
    ]
    equal = [
        all(same_choice(graph, answer, each) for each in ways) for answer, *ways in zip(answers, *found, strict=True)
    ]
    known = list(labelled[:MOST_LABELLED]) if graph.inputs.kind != "text" else []
    if not known or not graph.classes:
        return ExportAccuracy(len(golden), max(differences), float(np.mean(equal)))
    exported = ask(graph, run, [decode(graph.inputs, data) for data, _ in known])
    own = served.model.predict([data for data, _ in known])
    right = [name_choice(graph, each) == label for each, (_, label) in zip(exported, known, strict=True)]
    own_right = [answer.choice == label for answer, (_, label) in zip(own, known, strict=True)]
    accuracies = float(np.mean(own_right)), float(np.mean(right))
    return ExportAccuracy(len(golden), max(differences), float(np.mean(equal)), len(known), *accuracies)


def ask(graph: AnswerGraph, run: Runner, instances: Sequence[object]) -> list[RowOutputs]:
    """Return the outputs for each instance, by name."""
    found = list[RowOutputs]()
    for inputs in graph.inputs.encode(instances):
        outputs = run(inputs)
        found += [
            {name: values[at] for name, values in outputs.items()} for at in range(len(next(iter(inputs.values()))))
        ]
    return found


def ask_alone(graph: AnswerGraph, run: Runner, instances: Sequence[object]) -> list[RowOutputs]:
    """Return the outputs for each instance, answered in a call of its own."""
    answers = [run(row) for row in split_rows(graph.inputs.encode(instances))]
    return [{name: values[0] for name, values in outputs.items()} for outputs in answers]


def ask_together(graph: AnswerGraph, run: Runner, instances: Sequence[object]) -> list[RowOutputs]:
    """Return the outputs for each instance, answered in one call with all others of the same shape: texts of as many tokens."""
    rows = split_rows(graph.inputs.encode(instances))
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(tuple(values.shape for values in row.values()), []).append(place)
    found: list[RowOutputs] = [{} for _ in rows]
    for places in groups.values():
        outputs = run({name: np.concatenate([rows[place][name] for place in places]) for name in rows[places[0]]})
        for at, place in enumerate(places):
            found[place] = {name: values[at] for name, values in outputs.items()}
    return found


def split_rows(calls: Sequence[Mapping[str, AnyArray]]) -> list[dict[str, AnyArray]]:
    """Return the inputs of each row, as a call of its own."""
    return [
        {name: values[at : at + 1] for name, values in inputs.items()}
        for inputs in calls
        for at in range(len(next(iter(inputs.values()))))
    ]


def run_by_rows(answer: Callable[[list[AnyArray]], list[AnyArray]], description: ExportDescription) -> Runner:
    """Return a runner of a file that answers one row at a time, and whose inputs and outputs have an order but no names."""

    def run(inputs: Mapping[str, AnyArray]) -> Outputs:
        values = [inputs[spec.name] for spec in description.inputs]
        rows = [answer([each[at : at + 1] for each in values]) for at in range(len(values[0]))]
        return {
            spec.name: np.concatenate(parts)
            for spec, parts in zip(description.outputs, zip(*rows, strict=True), strict=True)
        }

    return run


def find_difference(graph: AnswerGraph, answer: Answer, found: RowOutputs) -> float:
    """Return the largest difference of a probability, or of the number and its bounds."""
    if graph.classes:
        chances = {candidate.id: candidate.score for candidate in answer.candidates}
        return max(
            abs(chances[label] - float(chance)) for label, chance in zip(graph.classes, found["chances"], strict=True)
        )
    assert answer.choice is not None, "a model that has learned a number answers one"
    served = [float(answer.choice), *(answer.interval or ())]
    names = ("number", "low", "high")[: len(served)]
    differences: list[float] = [abs(value - float(found[name])) for value, name in zip(served, names, strict=True)]
    return max(differences)


def same_choice(graph: AnswerGraph, answer: Answer, found: RowOutputs) -> bool:
    """Return whether both chose the same class, or abstained; of a number, whether they differ by one percent at most."""
    if graph.classes:
        return name_choice(graph, found) == answer.choice
    return math.isclose(float(answer.choice or 0), float(found["number"]), rel_tol=SAME_NUMBER)


def name_choice(graph: AnswerGraph, found: RowOutputs) -> str | None:
    """Return the class that an exported file chose; None if it abstained."""
    place = int(found["choice"])
    return graph.classes[place] if place >= 0 else None


def read_probes(model: Model, schema: InputSchema) -> Iterator[object]:
    """Yield the instances of the model's probes; none of texts, of which it keeps only the features."""
    if schema.kind != "text":
        yield from (decode(schema, data) for data, _ in model.probes())


def decode(schema: InputSchema, data: bytes) -> object:
    """Return the instance of encoded input: a list of numbers or a row."""
    return np.frombuffer(data, np.float64).tolist() if schema.kind == "vector" else parse_row(data)


def draw_instances(schema: InputSchema) -> JSONArray:
    """Return random instances, the same for the same schema."""
    rng = np.random.Generator(np.random.Philox(key=SEED))
    if schema.kind == "text":
        words = list_words()
        return [
            " ".join(words[at] for at in rng.integers(0, len(words), rng.integers(1, 16))) for _ in range(RANDOM_TEXTS)
        ]
    if schema.kind == "vector":
        return [*draw_numbers(schema, rng).tolist()]
    return draw_rows(schema, rng)


def draw_numbers(schema: InputSchema, rng: np.random.Generator) -> NDArray[np.float64]:
    """[RANDOM_ROWS, N] around the centres of the numbers."""
    scales_N2 = np.array([(number.centre, number.spread) for number in schema.numbers]).reshape(-1, 2)
    centres, spreads = scales_N2.T
    drawn: NDArray[np.float64] = centres + spreads * rng.normal(size=(RANDOM_ROWS, len(centres)))
    return drawn


def draw_rows(schema: InputSchema, rng: np.random.Generator) -> list[dict[str, Value]]:
    """Return rows in which a fifth of the numbers and of the categories are missing."""
    values_of: dict[str, list[str]] = {}
    for category in schema.categories:
        name, equals, value = category.partition("=")
        if equals and not name.startswith("overflow-"):
            values_of.setdefault(name, []).append(value)
    rows = list[dict[str, Value]]()
    for numbers in draw_numbers(schema, rng):
        row: dict[str, Value] = {
            number.name: float(value)
            for number, value in zip(schema.numbers, numbers, strict=False)
            if rng.random() < 0.8
        }
        row |= {name: values[rng.integers(len(values))] for name, values in values_of.items() if rng.random() < 0.8}
        rows.append(row)
    return rows


@cache
def list_words() -> list[str]:
    """Return whole words of the tokenizer's vocabulary."""
    tokenizer = minilm.tokenizer()
    tokens = (tokenizer.id_to_token(at) or "" for at in range(WORDS_FROM, WORDS_UNTIL))
    return [token for token in tokens if token.isascii() and token.isalpha()]
