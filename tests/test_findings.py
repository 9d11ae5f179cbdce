"""Findings about other packages: every script says what it shows, pins what it installs, and stands in the manual's table."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FINDINGS = sorted((ROOT / "findings").glob("*.sh"))
TABLE = (ROOT / "docs" / "reference" / "surprises.md").read_text()


def test_the_table_of_the_manual_lists_every_finding() -> None:
    assert sorted(re.findall(r"^\|.*`([\w.-]+\.sh)` \|$", TABLE, re.MULTILINE)) == [path.name for path in FINDINGS]


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_names_its_version_and_its_output_and_leaves_nothing_behind(path: Path) -> None:
    script = path.read_text()
    lines = script.splitlines()
    assert lines[0] == "#!/usr/bin/env bash" and re.match(r"# \S.* v?\d+\.\d+", lines[1])
    head = [line for line in lines if line.startswith("#")]
    assert any(re.match(r"# Output", line) for line in head)
    assert "set -euo pipefail" in script and "mktemp -d" in script and "trap" in script
    assert os.access(path, os.X_OK)
