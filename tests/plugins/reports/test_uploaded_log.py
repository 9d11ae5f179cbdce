"""Uploaded logs: the options that they may name, and the kinds of models that suit them."""

import json
from pathlib import Path
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.models import admit
from online.plugins.reports.uploaded_log import check_header, check_options, choose_models, count_events


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tower", {"network": "os:abort"}),
        ("tower", {"network": ["mlp"]}),
        ("river", {"estimator": "compat.VW2RiverClassifier"}),
        ("river", {"estimator": ["arf"]}),
        ("river", {"params": {"metric": {"made": "here"}}}),
        ("best_of", {"contenders": {"a": {"kind": "tower", "network": "os:abort"}}}),
        (
            "best_of",
            {"contenders": {"a": {"kind": "best_of", "contenders": {"b": {"kind": "river", "estimator": "x"}}}}},
        ),
        ("best_of", {"contenders": {"a": "tower"}}),
        ("river", {"estimator": "os:mkdir", "params": {"path": "made"}}),
        ("river_regressor", {"estimator": "os:mkdir"}),
        ("sklearn", {"estimator": "os:mkdir"}),
        ("sklearn", {"estimator": "linear_model.SGDClassifier"}),
        ("sklearn_regressor", {"params": {"loss": "huber"}}),
        ("tests.models.nearest_mean:NearestMean", {}),
        ("river", {"challenger": {"kind": "tests.models.nearest_mean:NearestMean"}}),
        ("river", {"challenger": {"options": {"estimator": "os:mkdir"}}}),
        ("best_of", {"contenders": {"a": {"kind": "tests.models.nearest_mean:NearestMean"}}}),
        ("best_of", {"contenders": {"a": {"kind": "sklearn", "estimator": "os:mkdir"}}}),
    ],
)
def test_an_option_that_names_code_is_refused(kind: str, options: dict[str, Any]) -> None:
    admit("tests.models.nearest_mean:NearestMean")  # what the operator may name, a log may not
    with pytest.raises(BadInput, match="of a log that is sent"):
        check_options(kind, options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tower", {"network": "cnn", "image": [1, 8, 8]}),
        ("river", {"estimator": "arf", "params": {"seed": 1, "n_models": 3}}),
        ("best_of", {"contenders": {"near": {"kind": "knn"}, "forest": {"kind": "river", "estimator": "arf"}}}),
        ("classifier", {"head": "rp_ridge"}),
    ],
)
def test_an_option_that_selects_from_this_package_is_accepted(kind: str, options: dict[str, Any]) -> None:
    check_options(kind, options)


@pytest.mark.parametrize(
    "header",
    [
        {"kind": "oracle", "options": {}},
        {"kind": "tests.models.nearest_mean:NearestMean", "options": {}},
        {"kind": "knn"},
        {"kind": ["knn"], "options": {}},
    ],
)
def test_a_header_with_an_unknown_model_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="line 1 names no model"):
        check_header(header, "a log")


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ([("when do you open", "hours"), ("can I print", "print")], ["classifier", "knn"]),
        ([([1.0, 2.0], "a"), ([2.0, 1.0], "b")], ["classifier", "logistic", "knn"]),
        ([({"x": 1.0}, n % 10) for n in range(100)], ["classifier", "logistic", "knn"]),
        ([({"x": 1.0}, n / 4) for n in range(100)], ["regressor"]),
        ([({"x": 1.0}, n * n) for n in range(100)], ["regressor"]),
    ],
)
def test_suitable_kinds_are_chosen_from_inputs_and_labels(
    tmp_path: Path, rows: list[tuple[Any, Any]], kinds: list[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in rows))
    assert choose_models(open_source(str(log), ReadOptions())) == kinds


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "x,y\n1,a\n2,b\n3,a\n"),
        ("log.jsonl", '{"input": [1], "label": "a"}\n' * 3),
    ],
)
def test_the_events_of_a_log_are_counted_before_they_are_replayed(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert count_events(open_source(str(path), ReadOptions(label="y" if name.endswith("csv") else ""))) == 3
