"""The files: the same version gives the same bytes, describes itself, and says what its format cost; what cannot be exported says why."""

import hashlib
import importlib.util
import json
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from online.errors import BadInput, CannotExport
from online.models import KINDS, Example, create
from online.models.statistics.weight_bits import LEAST_WEIGHTS
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.command import format_row
from online.plugins.export.exporter import (
    ExportedModel,
    RestoredVersion,
    build_graph,
    check_kind,
    describe_export,
    export,
    read_encoder,
    unwrap,
)
from online.plugins.export.formats import FORMATS, ExportFormat, find_format
from online.plugins.export.golden import Outputs, Runner, ServedModel, ask_alone, ask_together, draw_instances, measure
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.inputs import IDS, InputSchema, describe_numbers, tokenizer_file
from online.plugins.export.kinds import explain_refusal, find_builder
from online.plugins.export.manifest import METADATA_KEY, PREPROCESSING, describe
from tests.models.synthetic import tables, vectors
from tests.plugins.export.cases import CASES, TEXT_CASES, Case, case
from tests.preload import launcher

BY_NAME = {each.name: each for each in (*CASES, *TEXT_CASES)}
BASE_FORMATS = [form for form in FORMATS.values() if not form.extra]


@cache
def exported(name: str, form: str = "onnx") -> ExportedModel:
    return export_case(name, form)


def export_case(name: str, form: ExportFormat | str = "onnx") -> ExportedModel:
    return export(BY_NAME[name].version(), form if isinstance(form, ExportFormat) else FORMATS[form])


@pytest.mark.few(4)
@pytest.mark.parametrize("form", BASE_FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("name", ["slda-table", "rp-vector", "number-table", "tower-cnn"])
def test_the_same_version_gives_the_same_bytes(name: str, form: ExportFormat) -> None:
    assert export_case(name, form).data == export_case(name, form).data


def test_another_process_gives_the_same_bytes() -> None:
    script = (
        "import hashlib\n"
        "from tests.plugins.export.test_formats import export_case\n"
        'print(*(hashlib.sha256(export_case("rp-table", form).data).hexdigest() for form in ("onnx", "safetensors")))'
    )
    found = subprocess.run([launcher(), "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert found == [exported("rp-table", form).manifest.sha256 for form in ("onnx", "safetensors")]


def test_a_manifest_describes_the_file() -> None:
    found = exported("abstaining")
    manifest = json.loads(json.dumps(found.manifest.to_json()))
    assert manifest["sha256"] == hashlib.sha256(found.data).hexdigest() and manifest["bytes"] == len(found.data)
    assert (manifest["model"], manifest["version"], manifest["kind"], manifest["format"]) == (
        "m",
        7,
        "classifier",
        "onnx",
    )
    assert sorted(manifest["classes"]) == ["mango", "melon", "nut", "olive"]
    assert [each["name"] for each in manifest["inputs"]] == ["numbers"]
    assert [each["name"] for each in manifest["outputs"]] == ["chances", "confidence", "choice"]
    assert manifest["numbers"] == [str(place) for place in range(6)]
    assert manifest["abstain_below"] == 0.6 and manifest["temperature"] > 0
    assert (
        manifest["golden_count"] >= 256 and manifest["largest_difference"] < 1e-4 and manifest["agreement_ratio"] == 1
    )
    assert manifest["labelled_count"] > 100 and manifest["accuracy"] == manifest["served_accuracy"] > 0.9


def test_an_onnx_file_holds_its_description() -> None:
    found = exported("slda-table")
    (entry,) = onnx.load_model_from_string(found.data).metadata_props
    assert entry.key == METADATA_KEY
    assert json.loads(entry.value) == json.loads(json.dumps(describe(found.manifest.description)))


def test_the_inputs_and_outputs_of_an_onnx_file_are_those_of_its_manifest() -> None:
    for name in ("slda-table", "number-vector", "tower-cnn", "majority-table"):
        found = exported(name)
        graph = onnx.load_model_from_string(found.data).graph
        onnx.checker.check_model(onnx.load_model_from_string(found.data))
        description = found.manifest.description
        assert [each.name for each in graph.input] == [spec.name for spec in description.inputs]
        assert [each.name for each in graph.output] == [spec.name for spec in description.outputs]


def test_categories_are_named_with_their_values() -> None:
    description = exported("slda-table").manifest.description
    assert {"shape=s0", "shape=s1"} <= set(description.categories)
    assert set(description.numbers) == {"width", "height", "weight"}
    assert not description.shares_overflow
    assert exported("slda-table-full").manifest.description.shares_overflow


def test_names_without_a_column_share_categories_as_the_manifest_says() -> None:
    assert "K = crc32 of it in UTF-8, modulo 16" in PREPROCESSING["table"]
    shared = tuple(f"overflow-{place}=" for place in range(16))
    schema = describe_numbers(True, "float64", (), shared, True)
    for row, key in (({"colour": "grün"}, "colour=grün"), ({"weight": 3.5}, "weight"), ({"open": True}, "open=True")):
        ((categories,),) = (each["categories"] for each in schema.encode([row]))
        assert np.flatnonzero(categories).tolist() == [zlib.crc32(key.encode()) % 16]


@pytest.mark.long
def test_a_text_model_names_its_tokenizer() -> None:
    found = exported("slda-text")
    description = found.manifest.description
    assert description.tokenizer_sha256 == hashlib.sha256(tokenizer_file().read_bytes()).hexdigest()
    assert description.inputs == (IDS,)
    assert exported("majority-text").manifest.description.tokenizer_sha256 == ""


@pytest.mark.long
def test_int8_makes_a_text_model_a_quarter_as_large_and_tells_what_it_cost() -> None:
    whole, small = exported("slda-text"), exported("slda-text", "onnx-int8")
    assert len(small.data) < 0.27 * len(whole.data)
    assert whole.manifest.measured is not None and small.manifest.measured is not None
    assert whole.manifest.measured.largest_difference < 1e-4
    assert small.manifest.measured.largest_difference > 1e-3
    assert 0.8 <= small.manifest.measured.agreement_ratio <= 1


def test_int8_leaves_small_matrices_and_exact_products_as_they_are() -> None:
    wide = {"input": "vector", "size": 64, "head": "rp_ridge", "random_features": 256, "scale": 4.0}
    found = case("wide", "classifier", wide, lambda count, seed=0: vectors(count, seed, size=64))
    exported = export(found.version(), FORMATS["onnx-int8"])
    kinds = {node.op_type for node in onnx.load_model_from_string(exported.data).graph.node}
    assert "MatMulInteger" not in kinds and "MatMul" in kinds  # the only large matrix is that of the random features
    tower = case(
        "tower", "tower", {"input": "vector", "size": 64, "hidden": [128, 128], "buffer": 100, "batch": 8}, images
    )
    quantised_tower = export(tower.version(), FORMATS["onnx-int8"])
    kinds = {node.op_type for node in onnx.load_model_from_string(quantised_tower.data).graph.node}
    assert "MatMulInteger" in kinds
    assert quantised_tower.manifest.measured is not None and quantised_tower.manifest.measured.agreement_ratio > 0.95
    assert LEAST_WEIGHTS == 4_096


def images(count: int, seed: int = 0) -> list[Example]:
    return vectors(count, seed, size=64)


# what cannot be exported


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_either_has_a_graph_or_says_why_not(kind: str) -> None:
    spec = KINDS[kind]
    if find_builder(spec):
        module, _, name = find_builder(spec).partition(":")
        assert importlib.util.find_spec(module) is not None and name == "build"
        check_kind(kind, {})
    else:
        with pytest.raises(CannotExport, match=f"kind {kind} cannot be exported: {explain_refusal(spec)[:20]}"):
            check_kind(kind, {})


def test_a_challenger_that_cannot_be_exported_is_refused_only_while_it_answers() -> None:
    options = {"input": "vector", "size": 6, "challenger": {"kind": "knn"}}
    challenged = case("challenged", "classifier", options, vectors)
    version = challenged.version()
    assert export(version, FORMATS["onnx"]).manifest.description.classes
    version.served.model.served = "challenger"  # type: ignore[attr-defined]
    with pytest.raises(CannotExport, match="kind knn cannot be exported"):
        export(version, FORMATS["onnx"])


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("classifier", {"input": "vector", "size": 6}, "has learned no class yet"),
        ("regressor", {"input": "table"}, "has learned no number yet"),
        ("logistic", {"input": "table"}, "has learned no class yet"),
        ("majority", {"input": "text"}, "has learned no class yet"),
        ("tower", {"input": "vector", "size": 6}, "has learned no class yet"),
    ],
)
def test_a_model_that_has_learned_nothing_is_refused(kind: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotExport, match=reason):
        export(with_model(kind, options), FORMATS["onnx"])


def with_model(kind: str, options: dict[str, Any], *examples: Example) -> RestoredVersion:
    model = create(kind, options)
    if examples:
        model.learn(examples)
    subject = replace(BY_NAME["slda-vector"].version().subject, kind=kind)
    return RestoredVersion(subject, options, ServedModel(model, lambda instances: [bytes(each) for each in instances]))


def test_a_model_with_all_classes_retired_is_refused() -> None:
    retired = [Example(100 + n, "retire", b"", label) for n, label in enumerate({e.label for e in vectors(100)})]
    version = with_model("majority", {"input": "vector", "size": 6}, *vectors(100), *retired)
    with pytest.raises(CannotExport, match="all of them are retired"):
        export(version, FORMATS["onnx"])


def test_a_tower_with_a_network_of_its_operator_is_refused() -> None:
    options = {"input": "vector", "size": 6, "network": "tests.plugins.towers.own_networks:wide", "batch": 1}
    version = with_model("tower", options, *vectors(20))
    with pytest.raises(CannotExport, match="code of its own, which only Python can run"):
        export(version, FORMATS["onnx"])


def test_a_table_without_columns_is_refused() -> None:
    empty = [Example(n + 1, "label", b"{}", "a") for n in range(3)]
    with pytest.raises(CannotExport, match="no column of a table"):
        export(with_model("classifier", {"input": "table", "scale": 4.0}, *empty), FORMATS["onnx"])


def test_texts_that_are_read_by_hashing_are_refused() -> None:
    learned = [Example(n + 1, "label", bytes(384), label) for n, label in enumerate("abab")]
    with pytest.raises(CannotExport, match="read by hashing"):
        export(with_model("classifier", {"text_features": "hashed"}, *learned), FORMATS["onnx"])


def test_an_unknown_format_is_refused_with_the_formats() -> None:
    with pytest.raises(BadInput, match="'onyx'; use one of onnx, onnx-int8, safetensors, executorch, litert"):
        find_format("onyx")


@pytest.mark.parametrize("name", ["executorch", "litert"])
def test_a_format_without_its_extra_names_it(name: str) -> None:
    module = {"executorch": "executorch", "litert": "litert_torch"}[name]
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"the extra {name} is installed")
    with pytest.raises(CannotExport, match=rf"pip install 'online\[{name}\]'"):
        exported("slda-vector", name)


def test_litert_refuses_texts() -> None:
    with pytest.raises(CannotExport, match="texts have any number of tokens"):
        exported("slda-text", "litert")


def test_random_instances_are_the_same_each_time() -> None:
    for name in ("slda-vector", "slda-table"):
        description = exported(name).manifest.description
        schema = InputSchema(description.input, description.inputs)
        assert draw_instances(schema) == draw_instances(schema)
    assert draw_instances(InputSchema("text", (IDS,))) == draw_instances(InputSchema("text", (IDS,)))


def test_exporting_changes_nothing_about_the_model() -> None:
    version = BY_NAME["rp-table"].version()
    before = version.served.model.fingerprint()
    inputs = [example.features for example in tables(20, 3)]
    answers = version.served.model.predict(inputs)
    export(version, FORMATS["onnx"])
    assert version.served.model.fingerprint() == before and version.served.model.predict(inputs) == answers


FORMS_OF_BATCHES = ["onnx", "onnx-int8"]


@pytest.mark.few(1)
@pytest.mark.parametrize("form", FORMS_OF_BATCHES)
def test_texts_of_one_length_give_the_same_answers_alone_and_together(form: str) -> None:
    """Bit for bit: no scale depends on the other texts of a call."""
    graph, run = load_case(BY_NAME["slda-text"], form)
    texts = [f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS]
    for alone, together in zip(ask_alone(graph, run, texts), ask_together(graph, run, texts), strict=True):
        assert np.array_equal(alone["chances"], together["chances"]) and alone["choice"] == together["choice"]


WORDS = ["when", "where", "coffee"]


@pytest.mark.parametrize("form", FORMS_OF_BATCHES)
def test_rows_of_very_different_sizes_give_the_same_answers_alone_and_together(form: str) -> None:
    graph, run = load_case(wide_tower(), form)
    rows = [[1_000.0**place * value for value in row] for place in range(3) for row in draw_rows(20)]
    alone, together = ask_alone(graph, run, rows), ask_together(graph, run, rows)
    for one, among in zip(alone, together, strict=True):
        assert np.abs(one["chances"] - among["chances"]).max() < 1e-6 and one["choice"] == among["choice"]


def test_a_row_that_is_no_number_spoils_no_other() -> None:
    """Its own answer is NaN: it is not replaced by that of other numbers."""
    _, run = load_case(wide_tower(), "onnx-int8")
    rows = np.array(draw_rows(8))
    before = run({"numbers": rows})["chances"]
    rows[3, 7] = np.nan
    after = run({"numbers": rows})["chances"]
    assert np.isnan(after[3]).all()
    assert np.array_equal(np.delete(after, 3, 0), np.delete(before, 3, 0))


def test_a_row_of_zeros_is_answered() -> None:
    graph, run = load_case(wide_tower(), "onnx-int8")
    (zeros,) = ask_alone(graph, run, [[0.0] * 64])
    exact, run_exactly = load_case(wide_tower(), "onnx")
    (expected,) = ask_alone(exact, run_exactly, [[0.0] * 64])
    assert np.abs(zeros["chances"] - expected["chances"]).max() < 0.05


def test_the_manifest_measures_answers_that_are_given_together() -> None:
    """A file whose answers depend on their neighbours is as far from the served answers as its worst one."""
    case = BY_NAME["slda-vector"]
    graph, run = load_case(case, "onnx")
    calls: list[int] = []

    def depends_on_neighbours(inputs: Mapping[str, Any]) -> Outputs:
        calls.append(len(inputs["numbers"]))
        outputs = run(inputs)
        return {**outputs, "chances": outputs["chances"] + (0.25 if calls[-1] > 1 else 0.0)}

    measured = measure(case.version().served, graph, depends_on_neighbours)
    assert 1 in calls and max(calls) > 1
    assert measured.largest_difference == pytest.approx(0.25, abs=1e-3)


@pytest.mark.long
def test_a_file_of_int8_that_stays_float_says_so() -> None:
    assert exported("slda-vector", "onnx-int8").manifest.to_json()["int8_products"] == 0
    assert exported("slda-text", "onnx-int8").manifest.to_json()["int8_products"] > 20
    assert "int8_products" not in exported("slda-vector").manifest.to_json()
    assert "float32 throughout" in format_row(exported("slda-vector", "onnx-int8"))


def wide_tower() -> Case:
    options = {"input": "vector", "size": 64, "hidden": [128, 128], "buffer": 100, "batch": 8}
    return case("tower", "tower", options, images)


def draw_rows(count: int) -> list[list[float]]:
    drawn: list[list[float]] = np.random.default_rng(7).normal(size=(count, 64)).tolist()
    return drawn


def load_case(case: Case, form: str) -> tuple[AnswerGraph, Runner]:
    """The graph of a case, and its file in a format, loaded."""
    version = case.version()
    spec, model, retired = unwrap(version)
    weights = read_encoder(version) if case.reads_texts else None
    graph = build_graph(spec, model, ExportGraphBuilder(FORMATS[form].wide, weights), retired)
    description = describe_export(version.subject, spec, graph, FORMATS[form])
    return graph, FORMATS[form].load(FORMATS[form].write(graph, description), description)
