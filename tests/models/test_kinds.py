"""The table of kinds: what each can do, and that callers use it instead of comparing names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.models import KINDS, can_tune_encoder, input_options, spec_of, state_is_signed

PACKAGE = Path(__file__).parent.parent.parent / "online"
HOOKS = PACKAGE.glob("plugins/*/plugin.py")
KINDS_OF_PLUGINS = {path.parent for path in HOOKS if "def kinds(" in path.read_text()}  # they know their own kinds
CALLERS = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] != "models" and not KINDS_OF_PLUGINS & {*path.parents}
)


def compared_names(path: Path) -> Iterator[str]:
    """The places of a file that compare or match a value with the name of a model kind."""
    for node in ast.walk(ast.parse(path.read_text())):
        operands: list[ast.AST] = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        operands += [node.pattern] if isinstance(node, ast.match_case) else []
        for operand in operands:
            for child in ast.walk(operand):
                if isinstance(child, ast.Constant) and child.value in KINDS:
                    yield f"{path.relative_to(PACKAGE)}:{child.lineno} compares with {child.value!r}"


def test_nothing_outside_models_compares_the_name_of_a_kind() -> None:
    allowed = {"evaluation/sources/datasets.py"}  # "river:Phishing" names a library's data set
    places = [place for path in CALLERS for place in compared_names(path)]
    assert [place for place in places if place.partition(":")[0] not in allowed] == []


def test_an_unknown_kind_is_refused_with_the_names_of_all_kinds() -> None:
    with pytest.raises(ValueError, match="unknown model kind 'oracle'; use one of ranker, classifier"):
        spec_of("oracle")


def test_the_state_of_a_kind_that_unpickles_is_signed() -> None:
    assert [kind for kind in KINDS if state_is_signed(kind)] == [
        *("best_of", "ensemble", "river", "river_regressor", "sklearn", "sklearn_regressor")
    ]
    assert not state_is_signed("oracle")


def test_a_kind_with_a_single_input_ignores_its_input_option() -> None:
    assert input_options("river", {"input": "text"}) == {"input": "table", "size": 0}
    assert input_options("ranker", {}) == {"input": "text", "size": 0}
    assert input_options("knn", {"input": "vector", "size": 3}) == {"input": "vector", "size": 3}


def test_an_encoder_is_tuned_only_where_champion_and_challenger_can_follow() -> None:
    assert can_tune_encoder("ranker", {}) and can_tune_encoder("classifier", {})
    assert not can_tune_encoder("classifier", {"input": "table"})
    assert not can_tune_encoder("classifier", {"challenger": {"kind": "knn"}})
    assert can_tune_encoder("classifier", {"challenger": {"options": {"shrinkage": 1.0}}})
    assert not can_tune_encoder("oracle", {})
