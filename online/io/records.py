"""Open record files, plain or compressed as .gz or .zst, within limits. (CSV: csv_tables.py; Parquet: parquet_tables.py.)

    file --decompress, a little at a time--> BoundedReader --bytes--> lines

Replays read labelled rows with these functions, and batch prediction jobs read instances. A file may be made to be read
badly: a few kilobytes that unpack to terabytes, or to one endless line. So what is unpacked is counted, and refused early.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import zstandard

from online.errors import BadInput, TooLarge
from online.settings import Settings

PACKED = (".gz", ".zst")
MAGIC = (("gzip", ".gz", b"\x1f\x8b"), ("zstandard", ".zst", b"\x28\xb5\x2f\xfd"))  # the first bytes of a file
BUFFER_BYTES = 1 << 16
ZSTD_PIECE_BYTES = 1 << 10  # a block of 4 bytes unpacks to 128 kB, so a piece to 32 MB at most
FREE_BYTES = 16_777_216  # that any file may unpack to, whatever the ratio


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of a file; each is the setting of the same name, and has its default.

    max_line_bytes: of any file. max_unpacked_bytes, max_unpacked_ratio: of a compressed one.
    """

    max_line_bytes: int = 4_194_304
    max_unpacked_bytes: int = 8_589_934_592
    max_unpacked_ratio: float = 200.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits of the settings."""
        return cls(settings.max_line_bytes, settings.max_unpacked_bytes, settings.max_unpacked_ratio)

    def check_line(self, path: Path, line_bytes: int) -> None:
        """Raise TooLarge."""
        if line_bytes > self.max_line_bytes:
            refused = TooLarge(f"{path} has a line of more than {self.max_line_bytes:,} bytes (max_line_bytes)")
            raise refused.because("log_line_too_long", limit=self.max_line_bytes)

    def check_unpacked(self, path: Path, unpacked_bytes: int, packed_bytes: int) -> None:
        """Raise TooLarge."""
        if unpacked_bytes > self.max_unpacked_bytes:
            refused = TooLarge(f"{path} unpacks to more than {self.max_unpacked_bytes:,} bytes (max_unpacked_bytes)")
            raise refused.because("log_unpacks_too_large", limit=self.max_unpacked_bytes)
        if unpacked_bytes > FREE_BYTES and unpacked_bytes > self.max_unpacked_ratio * packed_bytes:
            raise TooLarge(
                f"{path} unpacks to more than {self.max_unpacked_ratio:g} times its size (max_unpacked_ratio)"
            ).because("log_unpacks_too_large", ratio=self.max_unpacked_ratio)


DEFAULT_LIMITS = ReadLimits()


@contextmanager
def open_text(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[tuple[IO[str], Callable[[], int]]]:
    """Open a text file, decompressed by its suffix; the second value returns the number of bytes read so far.

    Raises BadInput, now or while reading, if the file cannot be opened, decompressed or decoded; TooLarge beyond a limit.
    """
    with (
        open_bytes(path, limits, (b"\n", b"\r")) as (raw, position),
        io.TextIOWrapper(raw, "utf-8-sig", newline="") as file,
    ):
        yield file, position


@contextmanager
def open_bytes(
    path: Path, limits: ReadLimits = DEFAULT_LIMITS, line_ends: tuple[bytes, ...] = (b"\n",)
) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """Like `open_text`, for bytes. line_ends: what ends a line for the reader."""
    try:
        with open(path, "rb") as raw:
            reader = BoundedReader(path, decompress(raw, path.suffix), raw.tell, limits, line_ends)
            yield io.BufferedReader(reader, BUFFER_BYTES), raw.tell
    except EOFError:
        raise BadInput(f"{path} is cut off: its compressed data ends in the middle").because("log_cut_off") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} cannot be read: {describe_bytes(error)}").because("log_unreadable") from None
    except (OSError, zlib.error, zstandard.ZstdError) as error:
        raise BadInput(f"{path} cannot be read: {error}").because("log_unreadable") from None


def describe_bytes(error: UnicodeDecodeError) -> str:
    """Say why bytes are no text."""
    if error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16; save it as UTF-8"
    for name, suffix, magic in MAGIC:
        if error.object.startswith(magic):
            return f"it is compressed with {name}; let its name end in {suffix}, or unpack it"
    return f"it holds the byte 0x{error.object[error.start]:02x}, which is no UTF-8; save it as UTF-8"


def check_file(path: Path, limits: ReadLimits) -> None:
    """Unpack a whole file, and drop it. Raises what reading it would raise, before anything is done with its rows."""
    if path.suffix in PACKED:
        with open_bytes(path, limits, (b"\n", b"\r")) as (file, _):
            while file.read(BUFFER_BYTES):
                pass


def decompress(raw: IO[bytes], suffix: str) -> Any:
    """Return a reader of the unpacked bytes."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".zst":
        return ZstdReader(raw)
    return raw


class BoundedReader(io.RawIOBase):
    """Passes bytes on, and raises TooLarge for a line, or for more compressed data, than the limits allow.

    A line is measured once it is longer than a buffer.
    """

    def __init__(
        self,
        path: Path,
        source: IO[bytes],
        position: Callable[[], int],
        limits: ReadLimits,
        line_ends: tuple[bytes, ...],
    ) -> None:
        """position: returns the number of compressed bytes read."""
        self.path, self.source, self.position, self.limits, self.line_ends = path, source, position, limits, line_ends
        self.is_packed = path.suffix in PACKED
        self.unpacked_bytes = self.line_bytes = 0

    def readable(self) -> bool:
        """Return True, as io.RawIOBase requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer. Raises BadInput beyond a limit."""
        data = self.source.read(len(buffer))
        buffer[: len(data)] = data
        self.unpacked_bytes += len(data)
        last = max(map(data.rfind, self.line_ends))
        self.line_bytes = len(data) - last - 1 if last >= 0 else self.line_bytes + len(data)
        self.limits.check_line(self.path, self.line_bytes)
        if self.is_packed:
            self.limits.check_unpacked(self.path, self.unpacked_bytes, self.position())
        return len(data)


class ZstdReader(io.RawIOBase):
    """Decompresses all frames of a zstandard file. Raises EOFError if the last frame is cut off."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.ready = raw, b""
        self.frame: Any = None

    def readable(self) -> bool:
        """Return True, as io.RawIOBase requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read unpacked bytes into the buffer."""
        while not self.ready:
            data = self.raw.read(ZSTD_PIECE_BYTES)
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
