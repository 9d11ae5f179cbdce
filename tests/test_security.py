"""The threat model in SECURITY.md: every row names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = [
    line
    for line in (ROOT / "SECURITY.md").read_text().partition("## Threat model")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| who |")
]


@cache
def names_in(path: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}


def test_there_is_a_threat_model() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", ROWS)
def test_what_stops_a_threat_is_shown_by_tests_that_exist(row: str) -> None:
    named = TEST.findall(row)
    assert named, "no test is named"
    for path, name in named:
        assert name in names_in(path), f"{path} has no test {name}"
