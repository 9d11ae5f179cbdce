"""Exports a restored version: its graph, the file in one format, and the manifest with what was measured.

model --unwrap--> served member, retired classes --build--> AnswerGraph --format.write--> bytes --measure--> manifest
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from online.errors import CannotExport
from online.models.classifier import Classifier
from online.models.contract import AnyArray, Model, Options
from online.models.encoders import minilm
from online.models.kinds import HASHED, KindSpec, encoder_options, input_options, kinds_of, spec_of
from online.models.operator_code import import_attribute
from online.models.retirement import RetirableModel
from online.models.wrappers import find_answering
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.formats import ExportFormat
from online.plugins.export.golden import ServedModel, measure
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import IDS, sha256_of_tokenizer
from online.plugins.export.kinds import explain_refusal, find_builder
from online.plugins.export.manifest import (
    PREPROCESSING,
    ExportDescription,
    ExportDocument,
    ExportSubject,
    name_columns,
)

Builder = Callable[[Any, ExportGraphBuilder, Collection[str]], AnswerGraph]


@dataclass(frozen=True, slots=True)
class RestoredVersion:
    """A version in memory. options: those it was created with. tuned: the file of its tuned text encoder, if it has one."""

    subject: ExportSubject
    options: Options
    served: ServedModel
    tuned: Path | None = None
    held_out: Sequence[tuple[bytes, str]] = ()  # of an earlier version, where this one keeps no examples


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """An exported file and its manifest."""

    data: bytes
    manifest: ExportDocument


def check_kind(kind: str, options: Options) -> None:
    """Raise CannotExport if neither the kind nor one that its options add can be exported."""
    if not any(find_builder(spec) for spec in kinds_of(kind, options)):
        refuse_kind(spec_of(kind))


def refuse_kind(spec: KindSpec) -> None:
    """Raise CannotExport with the reason for a kind that has no graph."""
    raise CannotExport(f"a model of the kind {spec.name} cannot be exported: {explain_refusal(spec)}")


def export(version: RestoredVersion, form: ExportFormat) -> ExportedModel:
    """Export the version. Raises CannotExport that says why this version cannot be written in this format."""
    spec, model, retired = unwrap(version)
    reads = input_options(version.subject.kind, version.options)["input"]
    if reads == "text" and encoder_options(version.subject.kind, version.options)["text_features"] == HASHED:
        raise CannotExport(
            "texts that are read by hashing (option text_features) are not in any graph; a learner in a browser hashes them"
        )
    graph = build_graph(
        spec, model, ExportGraphBuilder(form.wide, read_encoder(version) if reads == "text" else None), retired
    )
    description = describe_export(version.subject, spec, graph, form)
    data = form.write(graph, description)
    measured = measure(version.served, graph, form.load(data, description), list_labelled(model) or version.held_out)
    digest = hashlib.sha256(data).hexdigest()
    manifest = ExportDocument(description, form.file, digest, len(data), measured, form.count_int8(graph))
    return ExportedModel(data, manifest)


def unwrap(version: RestoredVersion) -> tuple[KindSpec, Model, Collection[str]]:
    """Return the kind and the model that answer, and its retired classes. Raises CannotExport for a kind without a graph."""
    kind, model = find_answering(version.subject.kind, version.options, version.served.model)
    retired: Collection[str] = ()
    if isinstance(model, RetirableModel):
        retired, model = model.retired, model.model
    spec = spec_of(kind)
    if not find_builder(spec):
        refuse_kind(spec)
    return spec, model, retired


def build_graph(spec: KindSpec, model: Model, graph: ExportGraphBuilder, retired: Collection[str]) -> AnswerGraph:
    """Build the graph of a kind's answer."""
    return cast(Builder, import_attribute(find_builder(spec)))(model, graph, retired)


def read_encoder(version: RestoredVersion) -> dict[str, AnyArray]:
    """Return the encoder's weights, of the frozen or of a tuned one."""
    return minilm.read_tuned(version.tuned) if version.tuned else minilm.read_weights(minilm.package_folder())


def list_labelled(model: Model) -> Sequence[tuple[bytes, str]]:
    """Return held-out examples with their classes, where the model keeps some."""
    if not isinstance(model, Classifier):
        return []
    return [(example.features, example.label) for example in model.held_out.examples()]


def describe_export(
    subject: ExportSubject, spec: KindSpec, graph: AnswerGraph, form: ExportFormat
) -> ExportDescription:
    """Return the description that is written into the file."""
    schema = graph.inputs
    return ExportDescription(
        subject,
        form.name,
        spec.task,
        schema.kind,
        schema.tensors,
        graph.outputs,
        graph.classes,
        name_columns(schema),
        schema.categories,
        schema.overflow,
        PREPROCESSING[schema.kind],
        sha256_of_tokenizer() if IDS in schema.tensors else "",
        graph.temperature,
        graph.abstain_below,
    )
