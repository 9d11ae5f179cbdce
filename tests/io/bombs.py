"""Small files that unpack to much."""

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet
import zstandard

MB = 1 << 20


def gzip_bomb(path: Path, piece: bytes, unpacked_bytes: int) -> Path:
    path.write_bytes(gzip.compress(piece * (MB // len(piece))) * (unpacked_bytes // MB))
    return path


def zstd_bomb(path: Path, piece: bytes, unpacked_bytes: int) -> Path:
    path.write_bytes(zstandard.compress(piece * (MB // len(piece))) * (unpacked_bytes // MB))
    return path


def parquet_dictionary_bomb(path: Path) -> Path:
    """20,000 rows of one text of 1 MB, which the file holds once."""
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 20_000, pyarrow.int32()), ["x" * MB])
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), path, compression="zstd", store_schema=False)
    return path


def parquet_run_bomb(path: Path) -> Path:
    """20 million rows of one number, which the file holds as a few runs."""
    column = pyarrow.repeat(pyarrow.scalar(1.5), 20_000_000)
    pyarrow.parquet.write_table(pyarrow.table({"x": column}), path, compression="zstd")
    return path
