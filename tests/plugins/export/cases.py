"""One model of every exportable kind and input, and what it needs to be exported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from online.io.cache import cache_folder
from online.models import Answer, Example, Options, create, encoder_options
from online.models.encoders.factory import create_encoder
from online.models.encoders.values import parse_row
from online.plugins.export.exporter import RestoredVersion, build_graph, describe_export, read_encoder, unwrap
from online.plugins.export.formats import ExportFormat
from online.plugins.export.golden import ServedModel, ask, draw_instances
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import IDS, InputSchema
from online.plugins.export.manifest import ExportSubject
from tests.models.synthetic import KNOWN, TOPICS, labels_only, numbers, tables, texts, vectors

LEARNED = 300
VECTOR: Options = {"input": "vector", "size": 6}
TABLE: Options = {"input": "table"}
TEXT: Options = {"input": "text"}
RP: Options = {"head": "rp_ridge", "random_features": 64}
RETIRE = Example(9_000, "retire", b"", TOPICS[0])


@dataclass(frozen=True, eq=False)
class Case:
    """examples: what the model learns. inputs: the log whose inputs it answers, a function of their count.

    retracted: examples that it un-learns. tuned: the file of its tuned text encoder.
    """

    name: str
    kind: str
    options: Options
    examples: tuple[Example, ...]
    inputs: Callable[[int], list[Example]]
    retracted: tuple[Example, ...] = ()
    tuned: Path | None = None

    @property
    def reads_texts(self) -> bool:
        return bool(self.options["input"] == "text")

    def version(self) -> RestoredVersion:
        return restore(self)

    def instances(self, count: int) -> list[Any]:
        """Instances that the model has not learned. Features of texts have no words: these are drawn."""
        if self.reads_texts:
            return draw_instances(InputSchema("text", (IDS,)))[:count]
        found = [example.features for example in self.inputs(count)]
        if self.options["input"] == "table":
            return [parse_row(data) for data in found]
        return [np.frombuffer(data, np.float64).tolist() for data in found]


@cache
def restore(case: Case) -> RestoredVersion:
    """A model that has learned, as a server loads it."""
    learned = create(case.kind, case.options)
    learned.learn(case.examples)
    if case.retracted:
        learned.unlearn(case.retracted)
    model = create(case.kind, case.options)
    model.restore(learned.state())
    encoder = create_encoder(encoder_options(case.kind, case.options), cache_folder(), tuned=case.tuned)
    subject = ExportSubject("m", 7, case.kind, LEARNED, model.fingerprint(), "weights", model.feature_epoch())
    return RestoredVersion(subject, case.options, ServedModel(model, encoder.encode), case.tuned)


def answer_with(
    case: Case, form: ExportFormat, instances: Sequence[Any]
) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The classes, and the outputs of an exported file for each instance."""
    version = case.version()
    spec, model, retired = unwrap(version)
    weights = read_encoder(version) if case.reads_texts else None
    graph = build_graph(spec, model, ExportGraphBuilder(form.wide, weights), retired)
    description = describe_export(version.subject, spec, graph, form)
    return graph.classes, ask(graph, form.load(form.write(graph, description), description), instances)


def serve(case: Case, instances: Sequence[Any]) -> list[Answer]:
    return case.version().served.answer(instances)


def case(name: str, kind: str, options: Options, log: Callable[..., list[Example]], *more: Example) -> Case:
    return Case(name, kind, options, (*log(LEARNED), *more), lambda count: log(count, 1))


def number_case(name: str, options: Options, log: Callable[..., list[Example]]) -> Case:
    learned = numbers(log(2 * LEARNED))[:LEARNED]
    return Case(name, "regressor", options, tuple(learned), lambda count: log(count, 1))


def images(count: int, seed: int = 0) -> list[Example]:
    return vectors(count, seed, KNOWN, 64)


def one_class(count: int, seed: int = 0) -> list[Example]:
    return labels_only(vectors(count, seed, range(1)))


def without_a_class(name: str, options: Options) -> Case:
    """A model whose first class is inactive, because all its examples were retracted."""
    found = case(name, "classifier", options, vectors)
    return replace(found, retracted=tuple(each for each in found.examples if each.label == TOPICS[0]))


OUTSIDE: Options = {"abstain_below": 0.6, "outside": "none"}


def with_outside(count: int, seed: int = 0) -> list[Example]:
    """Vectors of which some belong to no class."""
    strange = [
        Example(5_000 + n, "label", (6 * np.random.default_rng([n, seed]).normal(size=6)).tobytes(), "none")
        for n in range(60)
    ]
    return [*vectors(count, seed), *strange]


CASES = [
    case("slda-vector", "classifier", VECTOR, vectors),
    case("slda-vector-scaled", "classifier", {**VECTOR, "scale": 4.0}, vectors),
    case("slda-table", "classifier", TABLE, tables),
    case("slda-table-full", "classifier", {**TABLE, "max_features": 5}, tables),
    case("ridge-vector", "classifier", {**VECTOR, "head": "ridge"}, vectors),
    case("ridge-table", "classifier", {**TABLE, "head": "ridge"}, tables),
    case("rp-vector", "classifier", {**VECTOR, **RP}, vectors),
    case("rp-table", "classifier", {**TABLE, **RP}, tables),
    case("best-vector", "classifier", {**VECTOR, "head": "best", "random_features": 64}, vectors),
    case("abstaining", "classifier", {**VECTOR, **OUTSIDE}, with_outside),
    case("abstaining-ridge", "classifier", {**VECTOR, **OUTSIDE, "head": "ridge"}, with_outside),
    case("retired", "classifier", VECTOR, vectors, RETIRE),
    case("retired-abstaining", "classifier", {**VECTOR, **OUTSIDE}, with_outside, RETIRE),
    case("challenged", "classifier", {**VECTOR, "challenger": {"kind": "logistic"}}, vectors),
    case("challenger-answers", "majority", {**VECTOR, "challenger": {"kind": "classifier", "patience": 5}}, vectors),
    case("one-class", "classifier", VECTOR, one_class),
    without_a_class("inactive", {**VECTOR, "scale": 4.0}),
    without_a_class("inactive-ridge", {**VECTOR, "scale": 4.0, "head": "ridge"}),
    case("majority-vector", "majority", VECTOR, vectors),
    case("majority-table", "majority", TABLE, tables, RETIRE),
    case("logistic-vector", "logistic", VECTOR, vectors),
    case("logistic-table", "logistic", {**TABLE, "waves": 8}, tables),
    case("tower-vector", "tower", {**VECTOR, "hidden": [32], "buffer": 100}, vectors),
    case("tower-table", "tower", {**TABLE, "hidden": [32, 16], "buffer": 100}, tables),
    case(
        "tower-cnn",
        "tower",
        {"input": "vector", "size": 64, "network": "cnn", "image": [1, 8, 8], "hidden": [16], "batch": 16, "replay": 4},
        images,
    ),
    number_case("number-vector", VECTOR, vectors),
    number_case("number-table", TABLE, tables),
    number_case("number-unfollowed", {**VECTOR, "follow": False}, vectors),
]
TEXT_CASES = [
    case("slda-text", "classifier", TEXT, texts),
    case("rp-text", "classifier", {**TEXT, **RP}, texts),
    case("majority-text", "majority", TEXT, texts),
    case("tower-text", "tower", {**TEXT, "hidden": [32], "buffer": 100, "batch": 4}, texts),
    number_case("number-text", TEXT, texts),
]
