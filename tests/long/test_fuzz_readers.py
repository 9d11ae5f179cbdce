"""Mutated tables through every reader: no traceback, and each row is read or named."""

from pathlib import Path

from benchmarks.fuzz_readers import fuzz


def test_no_mutated_table_loses_a_row_or_ends_in_a_traceback(tmp_path: Path) -> None:
    assert fuzz(seconds=60.0, first=1_000_000, keep=tmp_path)["findings"] == 0
