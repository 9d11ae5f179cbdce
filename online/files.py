"""Files of rows as they come: JSONL, CSV and Parquet, plain or packed as .gz or .zst.

Who reads labelled rows to be replayed, and who reads instances to be answered, both read them by this.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import zstandard

from online.errors import BadInput

PAGE = 4_096  # rows of a Parquet file read at once
PACKED = (".gz", ".zst")


@contextmanager
def reading(path: Path) -> Iterator[tuple[IO[str], Callable[[], int]]]:
    """A text file, unpacked as its name says, and how many of its bytes were read.

    Raises BadInput when it cannot be opened, unpacked or read as text, then or later.
    """
    with reading_bytes(path) as (raw, position), io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        yield file, position


@contextmanager
def reading_bytes(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The same, not yet read as text."""
    try:
        with open(path, "rb") as raw:
            yield unpacked(raw, path.suffix), raw.tell
    except EOFError:
        raise BadInput(f"{path} is cut off: its compressed data ends in the middle") from None
    except (OSError, zlib.error, zstandard.ZstdError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def unpacked(raw: IO[bytes], suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".zst":
        return io.BufferedReader(Unzstd(raw))
    return raw


class Unzstd(io.RawIOBase):
    """The frames of a zstandard file, one after another. Raises EOFError where the last one is cut off."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.ready = raw, b""
        self.frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            data = self.raw.read(1 << 16)
            if not data:
                if self.frame is not None and not self.frame.eof:
                    raise EOFError
                return 0
            self.ready = self._unpacked(data)
        given = min(len(buffer), len(self.ready))
        buffer[:given], self.ready = self.ready[:given], self.ready[given:]
        return given

    def _unpacked(self, data: bytes) -> bytes:
        made = b""
        while data:
            if self.frame is None or self.frame.eof:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            made += self.frame.decompress(data)
            data = self.frame.unused_data if self.frame.eof else b""
        return made


def suffix_of(path: Path) -> str:
    """What its name says that it holds: ".csv" of `a.csv.gz`."""
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def parquet_file(path: Path) -> Any:
    """Raises BadInput for one that cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def parquet_records(path: Path, file: Any) -> Iterator[Mapping[str, Any]]:
    """Every row as an object of its columns. Raises BadInput where it cannot be read on."""
    import pyarrow

    try:
        for batch in file.iter_batches(PAGE):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def number_or_text(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def plain(value: Any) -> Any:
    """What a table takes: the number types of numpy, river and Arrow as Python's."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
