"""The threat model of the manual: every row names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = [
    line
    for line in (ROOT / "docs" / "explanation" / "threat-model.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| who |")
]


@cache
def names_in(path: str) -> set[str]:
    file = ROOT / path
    tree = ast.parse(file.read_text() if file.exists() else "")
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_of_the_threat_model_names_tests_that_exist() -> None:
    assert len(ROWS) >= 50
    assert [row for row in ROWS if not TEST.search(row)] == []
    named = {test for row in ROWS for test in TEST.findall(row)}
    assert [f"{path}::{name}" for path, name in sorted(named) if name not in names_in(path)] == []
