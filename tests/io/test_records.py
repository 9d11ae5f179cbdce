"""Files that are made to be read badly: refused early, with little memory."""

import tracemalloc
from pathlib import Path

import pytest

from online.errors import TooLarge
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_bytes, open_text
from online.settings import Settings
from tests.io.bombs import MB, gzip_bomb, zstd_bomb

LINES = b'{"input": "a", "label": "b"}\n    '  # 32 bytes


def read_through(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> int:
    with open_bytes(path, limits) as (lines, _):
        return sum(1 for _ in lines)


def test_the_limits_are_those_of_the_settings() -> None:
    assert ReadLimits.of(Settings()) == DEFAULT_LIMITS


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".jsonl":
        with open(path, "wb") as file:
            file.truncate(300 * MB)  # a hole, which takes no room on the disk
    else:
        (gzip_bomb if path.suffix == ".gz" else zstd_bomb)(path, b"x", 300 * MB)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=r"a line of more than 4,194,304 bytes \(max_line_bytes\)"):
            read_through(path)
        assert tracemalloc.get_traced_memory()[1] < 64 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_that_unpacks_to_many_times_its_size_is_refused(tmp_path: Path, suffix: str) -> None:
    make = gzip_bomb if suffix == ".gz" else zstd_bomb
    path = make(tmp_path / f"a.jsonl{suffix}", LINES, 32 * MB)
    with pytest.raises(TooLarge, match="more than 200 times its size"):
        read_through(path)
    assert read_through(path, ReadLimits(max_unpacked_ratio=1e6)) == 32 * MB // len(LINES) + 1
    with pytest.raises(TooLarge, match=r"more than 20,000,000 bytes \(max_unpacked_bytes\)"):
        read_through(path, ReadLimits(max_unpacked_bytes=20_000_000, max_unpacked_ratio=1e6))


def test_lines_of_any_ending_are_told_apart_in_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"number,label\r" * 40_000)
    limits = ReadLimits(max_line_bytes=131_072)
    with open_text(path, limits) as (file, _):
        assert sum(1 for _ in file) == 40_000
    with pytest.raises(TooLarge, match="max_line_bytes"):
        read_through(path, limits)
