"""Fuzz the API and the tensor decoders for minutes. tests/fuzz repeats earlier findings in every run."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("part", ["api", "tensors"])
def test_fuzzing_finds_no_failure(part: str) -> None:
    command = [sys.executable, "-m", "benchmarks.fuzz", "--minutes", "3", "--only", part]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_200)
    assert process.returncode == 0, process.stdout[-5_000:] + process.stderr[-5_000:]
