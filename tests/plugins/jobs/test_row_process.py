"""Reading the input of a batch job in a child process, whose memory and time are bounded."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from online.errors import BadInput, TooLarge
from online.plugins.jobs.batch_rows import BatchRow, DirectReader, RowsRequest
from online.plugins.jobs.row_process import ProcessReader
from online.serving.processes.time_limit import limited_time
from online.settings import Settings
from tests.io.bombs import MB, gzip_bomb, parquet_dictionary_bomb, parquet_run_bomb
from tests.preload import launcher


@pytest.fixture(autouse=True)
def start_children_preloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", launcher())


def read(path: Path, input: str, settings: Settings) -> list[BatchRow]:
    request = RowsRequest(path, path.suffix.removeprefix("."), "", input)
    return [*ProcessReader(settings).read(request, lambda: None)]


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize(
    ("name", "content", "input"),
    [
        ("a.jsonl", b'{"text": "h\xc3\xa9", "id": 7}\n\n?\n{"text": NaN}\n[1e400]\n{"text": "b", "id": 2}', "text"),
        ("a.csv", b"id,x,y\n1,2.5,red\n2,,blue\n3,4,5,6\n", "table"),
    ],
)
def test_rows_are_the_same_as_those_that_are_read_directly(
    tmp_path: Path, name: str, content: bytes, input: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    request = RowsRequest(path, path.suffix.removeprefix("."), "id", input)
    reader = ProcessReader(Settings())
    direct = [*DirectReader().read(request, lambda: None)]
    assert [*reader.read(request, lambda: None)] == direct and direct
    assert reader.count(request, lambda: None) == DirectReader().count(request, lambda: None)


def test_bytes_of_parquet_that_are_a_text_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [b"raw", b"bytes"]}), path)
    assert [row.instance for row in read(path, "text", Settings())] == ["raw", "bytes"]


@pytest.mark.parametrize(
    ("make", "words", "settings"),
    [
        (parquet_dictionary_bomb, "max_job_memory_bytes", Settings(max_job_memory_bytes=256 * MB)),
        (parquet_run_bomb, "max_unpacked_ratio", Settings()),
    ],
)
def test_a_parquet_file_that_unpacks_to_much_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], words: str, settings: Settings
) -> None:
    path = make(tmp_path / "a.parquet")
    assert path.stat().st_size < MB
    with pytest.raises(BadInput, match=words):
        read(path, "table", settings)


def test_reading_a_pipe_without_an_end_is_ended_after_max_job_hours(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "a.jsonl")
    settings, before = Settings(max_job_hours=1 / 3600), children()
    request = RowsRequest(path, "jsonl", "", "text")

    async def count() -> int:
        async with limited_time(settings) as check:
            return await asyncio.to_thread(ProcessReader(settings).count, request, check)

    with pytest.raises(TooLarge, match="it took longer than"):
        asyncio.run(count())
    assert children() <= before


def test_reading_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    path = gzip_bomb(tmp_path / "a.jsonl.gz", b"\n", 4_000 * MB)
    request = RowsRequest(path, "jsonl", "", "text")
    calls, before = [0], children()

    def check() -> None:
        calls[0] += 1
        if calls[0] == 3:
            assert children() - before
            raise InterruptedError

    with pytest.raises(InterruptedError):
        ProcessReader(Settings(max_unpacked_ratio=1e9)).count(request, check)
    assert children() <= before
