"""Exported files give the served answers: every exportable kind and input, in ONNX Runtime and by the safetensors reader."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.models import Answer, Example, create
from online.models.encoders import minilm
from online.plugins.ensembles.challenger import CHALLENGER, ChampionChallenger
from online.plugins.export.exporter import build_graph, unwrap
from online.plugins.export.formats import FORMATS
from online.plugins.export.formats.tensors import run_with_torch
from online.plugins.export.golden import ask
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.torch_module import GraphModule, read_program
from tests.models.synthetic import TOPICS
from tests.plugins.export.cases import CASES, TEXT_CASES, Case, answer_with, serve
from tests.support import first_of

COUNT = 1_000
NEAR = 1e-4  # the largest difference of a probability
ONNX, TENSORS = FORMATS["onnx"], FORMATS["safetensors"]


def check_answers(classes: tuple[str, ...], served: list[Answer], found: list[dict[str, Any]]) -> None:
    assert len(served) == len(found)
    for answer, outputs in zip(served, found, strict=True):
        (check_classes if classes else check_number)(classes, answer, outputs)


def check_classes(classes: tuple[str, ...], answer: Answer, outputs: dict[str, Any]) -> None:
    chances = dict(zip(classes, outputs["chances"].tolist(), strict=True))
    assert chances == pytest.approx({each.id: each.score for each in answer.candidates}, abs=NEAR)
    chosen = classes[outputs["choice"]] if outputs["choice"] >= 0 else None
    first, second = (*sorted(chances.values(), reverse=True), 0.0)[:2]
    if first - second > 2 * NEAR:
        assert chosen == answer.choice
    assert (chosen is None) == answer.abstained


def check_number(classes: tuple[str, ...], answer: Answer, outputs: dict[str, Any]) -> None:
    assert answer.choice is not None and answer.interval is not None
    served = (float(answer.choice), *answer.interval)
    assert tuple(map(float, (outputs["number"], outputs["low"], outputs["high"]))) == pytest.approx(served, rel=NEAR)


@pytest.mark.few(20)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("format", [ONNX, TENSORS], ids=lambda form: form.name)
def test_a_file_gives_the_served_answers(case: Case, format: Any) -> None:
    instances = case.instances(COUNT)
    check_answers(*pair(case, format, instances))


@pytest.mark.parametrize(
    "case", first_of([case for case in CASES if case.kind != "regressor"], 8), ids=lambda case: case.name
)
def test_a_graph_of_float32_alone_gives_the_served_chances(case: Case) -> None:
    """LiteRT has nothing wider. Scores of slda are then computed without what all classes have in common."""
    spec, model, retired = unwrap(case.version())
    graph = build_graph(spec, model, ExportGraphBuilder("float32"), retired)
    program, instances = read_program(graph.model), case.instances(COUNT)
    found = ask(graph, run_with_torch(GraphModule(program), program), instances)
    for answer, outputs in zip(serve(case, instances), found, strict=True):
        chances = dict(zip(graph.classes, outputs["chances"].tolist(), strict=True))
        assert chances == pytest.approx({each.id: each.score for each in answer.candidates}, abs=NEAR / 20)
        assert (outputs["choice"] < 0) == answer.abstained


@pytest.mark.parametrize("case", first_of(TEXT_CASES), ids=lambda case: case.name)
def test_a_file_gives_the_served_answers_to_texts(case: Case) -> None:
    check_answers(*pair(case, ONNX, case.instances(64)))


def test_the_safetensors_reader_gives_the_served_answers_to_texts() -> None:
    case = TEXT_CASES[0]
    check_answers(*pair(case, TENSORS, case.instances(32)))


@pytest.mark.long
def test_a_file_gives_the_served_answers_to_a_thousand_real_questions() -> None:
    questions = read_questions()
    case = TEXT_CASES[0]
    check_answers(*pair(case, ONNX, questions))


def read_questions() -> list[str]:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "clinc150" / "data_full.json"
    if not path.exists():
        pytest.skip(f"{path} does not exist; ONLINE_SHARED_DATA names the folder of public data sets")
    return [text for text, _ in json.loads(path.read_bytes())["test"][::4]][:COUNT]


def pair(case: Case, form: Any, instances: list[Any]) -> tuple[tuple[str, ...], list[Answer], list[dict[str, Any]]]:
    classes, found = answer_with(case, form, instances)
    return classes, serve(case, instances), found


def test_abstention_is_tested_on_both_outcomes() -> None:
    for name in ("abstaining", "abstaining-ridge", "retired-abstaining"):
        case = next(each for each in CASES if each.name == name)
        abstained = [answer.abstained for answer in serve(case, case.instances(COUNT))]
        assert 0 < sum(abstained) < COUNT, name


def test_a_row_with_unknown_names_and_missing_numbers_is_answered_as_served() -> None:
    case = next(each for each in CASES if each.name == "slda-table-full")
    rows = [{}, {"unknown": 3.0}, {"width": 1.5, "new": "x", "other": True}, {"shape": "never seen", "height": None}]
    check_answers(*pair(case, ONNX, rows))


def test_extreme_numbers_are_answered_as_served() -> None:
    case = next(each for each in CASES if each.name == "rp-vector")
    extreme = [[1e300, -1e300, 5e-324, -0.0, 1e-30, 1e18], [2.0**-40] * 6, [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]]
    check_answers(*pair(case, ONNX, extreme))


def test_wide_tables_keep_random_features_exact() -> None:
    """Beyond 600 columns, the products need more digits than float32 has."""
    rng = np.random.default_rng(0)
    rows = [
        Example(
            n,
            "label",
            json.dumps({f"n{at}": float(v) for at, v in enumerate(values)}).encode(),
            str(int(values[0] > 0)),
        )
        for n, values in enumerate(rng.normal(size=(240, 160)))
    ]
    options = {"input": "table", "head": "rp_ridge", "random_features": 64, "scale": 4.0}
    case = Case("wide", "classifier", options, tuple(rows[:200]), lambda count: rows[200:])
    model = create("classifier", options)
    model.learn(rows[:200])
    check_answers(*pair(case, ONNX, case.instances(40)))


def test_a_file_of_a_tuned_text_encoder_gives_the_served_answers(tmp_path: Path) -> None:
    weights = minilm.read_weights(minilm.package_folder())
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
    tuned = minilm.write_tuned(tmp_path, {name: weights[name] * 1.5})
    instances = TEXT_CASES[0].instances(16)
    classes, answers, found = pair(replace(TEXT_CASES[0], tuned=tuned), ONNX, instances)
    check_answers(classes, answers, found)
    assert serve(TEXT_CASES[0], instances) != answers, "the other encoder gives other answers"


def test_the_cases_have_what_their_names_say() -> None:
    by_name = {case.name: case for case in CASES}
    answering = by_name["challenger-answers"].version().served.model
    assert isinstance(answering, ChampionChallenger) and answering.served == CHALLENGER
    assert answer_with(by_name["one-class"], ONNX, by_name["one-class"].instances(1))[0] == (TOPICS[0],)
    for name in ("inactive", "inactive-ridge"):
        assert sorted(answer_with(by_name[name], ONNX, by_name[name].instances(1))[0]) == sorted(TOPICS[1:])


@pytest.mark.parametrize("case", first_of([*CASES, *TEXT_CASES[:1]], 2), ids=lambda case: case.name)
def test_executorch_gives_the_served_answers(case: Case) -> None:
    pytest.importorskip("executorch", reason="the extra executorch is not installed")
    check_answers(*pair(case, FORMATS["executorch"], case.instances(50)))


def check_nearby_numbers(served: list[Answer], found: list[dict[str, Any]]) -> None:
    """Nearly all within a hundredth of the width of their interval, and none farther than a tenth of it."""
    expected = np.array([(float(each.choice), *each.interval) for each in served if each.choice and each.interval])
    given = np.array([[float(outputs[name]) for name in ("number", "low", "high")] for outputs in found])
    assert given.shape == expected.shape
    distances = np.abs(given - expected).max(axis=1) / (expected[:, 2] - expected[:, 1])
    assert np.mean(distances <= 0.01) >= 0.98 and distances.max() <= 0.1


@pytest.mark.parametrize("case", [each for each in CASES if each.kind == "regressor"], ids=lambda case: case.name)
def test_a_regressor_in_float32_gives_nearly_the_served_numbers(case: Case) -> None:
    """As LiteRT computes, whose extra need not be installed for this."""
    instances = case.instances(COUNT)
    _, served, found = pair(case, replace(ONNX, wide="float32"), instances)
    check_nearby_numbers(served, found)
    for outputs in found:
        outputs["number"] = outputs["number"] * 1.1 + 0.1
    with pytest.raises(AssertionError):
        check_nearby_numbers(served, found)


@pytest.mark.parametrize("case", first_of(CASES, 2), ids=lambda case: case.name)
def test_litert_gives_nearly_the_served_answers(case: Case) -> None:
    """In float32, a number or a feature that lies between two of the grid may fall to the other side."""
    pytest.importorskip("litert_torch", reason="the extra litert is not installed")
    instances = case.instances(50)
    classes, served, found = pair(case, FORMATS["litert"], instances)
    if not classes:
        check_nearby_numbers(served, found)
        return
    chosen = [classes[outputs["choice"]] if outputs["choice"] >= 0 else None for outputs in found]
    assert np.mean([choice == answer.choice for choice, answer in zip(chosen, served, strict=True)]) >= 0.98
