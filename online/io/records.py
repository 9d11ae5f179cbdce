"""Read record files: JSONL, CSV and Parquet, plain or compressed as .gz or .zst.

Replays read labelled rows with these functions, and batch prediction jobs read instances.
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
def open_text(path: Path) -> Iterator[tuple[IO[str], Callable[[], int]]]:
    """Open a text file, decompressed by its suffix; the second value returns the number of bytes read so far.

    Raises BadInput, now or while reading, if the file cannot be opened, decompressed or decoded.
    """
    with open_bytes(path) as (raw, position), io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        yield file, position


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """Like `open_text`, for bytes."""
    try:
        with open(path, "rb") as raw:
            yield decompress(raw, path.suffix), raw.tell
    except EOFError:
        raise BadInput(f"{path} is cut off: its compressed data ends in the middle") from None
    except (OSError, zlib.error, zstandard.ZstdError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def decompress(raw: IO[bytes], suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".zst":
        return io.BufferedReader(ZstdReader(raw))
    return raw


class ZstdReader(io.RawIOBase):
    """Decompresses all frames of a zstandard file. Raises EOFError if the last frame is cut off."""

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
            self.ready = self._decompress(data)
        given = min(len(buffer), len(self.ready))
        buffer[:given], self.ready = self.ready[:given], self.ready[given:]
        return given

    def _decompress(self, data: bytes) -> bytes:
        output = b""
        while data:
            if self.frame is None or self.frame.eof:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            output += self.frame.decompress(data)
            data = self.frame.unused_data if self.frame.eof else b""
        return output


def suffix_of(path: Path) -> str:
    """Return the suffix without that of the compression: ".csv" for `a.csv.gz`."""
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def open_parquet(path: Path) -> Any:
    """Open a Parquet file. Raises BadInput if it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def read_parquet_rows(path: Path, file: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each row as a mapping of its columns. Raises BadInput if reading fails."""
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


def plain_value(value: Any) -> Any:
    """Return a value as a table takes it: number types of numpy, river and Arrow become Python floats."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
