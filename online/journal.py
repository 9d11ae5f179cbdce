"""The journal: predictions on their way into the store.

    answer --one write(2) per micro-batch--> a segment of this process in <state>/journal/
                                                    |
                                    copied (store/journal_copy.py) --> store;  once it is sealed, the file is deleted

    segment = MAGIC, then frames;  frame = length (4 bytes), CRC-32 of the payload (4 bytes), payload (MessagePack)

What is written survives the death of the process: it is in the page cache of the kernel before the answer leaves. It does not
wait for the disk, as SQLite does not with synchronous=NORMAL. Any process may seal a segment, by taking away the permission to
write it: its writer looks at that after each write. If the segment was sealed meanwhile, a copier may have missed the frame, so
it is written again, marked as repeated, into a new segment. A copier ignores repeated predictions that are in the store already.
"""

import errno
import os
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from online.errors import Unavailable

MAGIC = b"online journal 1"
HEADER = struct.Struct("<II")  # length and CRC-32 of a payload
SUFFIX = ".segment"
WRITABLE, SEALED = 0o600, 0o400
MAX_SEGMENT_BYTES = 16_000_000  # after which a process begins another one
MAX_FRAME_BYTES = 1 << 30  # a length beyond it is damage


class JournalRow(msgspec.Struct, array_like=True):
    """One prediction. The names are those of the table `prediction`. Its answer is filled in when there is one.

    input: JSON. features: None where they are the numbers of the input, as float64. candidates, scores: the best ones.
    exclude: the answers that were ruled out.
    """

    id: str
    user: str | None
    input: bytes
    features: bytes | None
    choice: str | None = None
    propensity: float = 1.0
    candidates: Sequence[str] = ()
    scores: Sequence[float] = ()
    exclude: Sequence[str] = ()


class JournalFrame(msgspec.Struct, array_like=True):
    """The predictions of one micro-batch by one version. encoder: the name of the one that computed the features.

    is_repeated: whether a copier may have seen the frame in another segment.
    """

    model: str
    version: int
    learned_until: int
    encoder: str
    created_at: str
    rows: list[JournalRow]
    is_repeated: bool = False


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(JournalFrame)


class JournalWriter:
    """Appends frames to a segment of this process. For one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._size = 0
        self._buffer = bytearray(HEADER.size)

    def append(self, *frames: JournalFrame) -> None:
        """Return once all frames would survive this process. Raises Unavailable; nothing is answered then.

        They are written at once, so that an error leaves none of them behind; only a segment that is sealed at the same moment
        may keep them. A copier stores a prediction once, however often it was written.
        """
        try:
            while frames and not self._write(self._encode(frames)):
                for frame in frames:
                    frame.is_repeated = True
        except OSError as error:
            raise unwritable(error) from error

    def open(self) -> None:
        """Begin a segment if there is none. Raises Unavailable if that is not possible."""
        if self._file is None:
            try:
                self._file, self._size = self._create(), len(MAGIC)
            except OSError as error:
                raise unwritable(error) from error

    def close(self) -> None:
        """Close the file; nothing is lost, because each frame was written."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _encode(self, frames: Sequence[JournalFrame]) -> bytearray:
        buffer, start = self._buffer, 0
        for frame in frames:
            ENCODER.encode_into(frame, buffer, start + HEADER.size)
            with memoryview(buffer) as view:
                checksum = zlib.crc32(view[start + HEADER.size :])
            HEADER.pack_into(buffer, start, len(buffer) - start - HEADER.size, checksum)
            start = len(buffer)
        return buffer

    def _write(self, data: bytearray) -> bool:
        """Return whether a copier is certain to see the data. False: the segment was sealed, or deleted."""
        self.open()
        file = self._file
        assert file is not None, "open has succeeded, or raised"
        try:
            write_all(file, data)
        except OSError as error:
            self._cut_off(file, error)
            raise
        self._size += len(data)
        status = os.fstat(file)
        is_sealed = not status.st_mode & 0o200 or not status.st_nlink
        if self._size >= MAX_SEGMENT_BYTES and not is_sealed:
            os.fchmod(file, SEALED)
            self.close()
        elif is_sealed:
            self.close()
        return not is_sealed

    def _cut_off(self, file: int, error: OSError) -> None:
        """Remove what an error has left of a frame, and seal the segment: once it is copied and deleted, there is room again.

        Where only room is missing, an empty segment is used again, so that the disk is not filled with empty ones.
        """
        with suppress(OSError):
            os.ftruncate(file, self._size)
            if error.errno in NO_ROOM and self._size == len(MAGIC):
                return
            os.fchmod(file, SEALED)
        self.close()

    def _create(self) -> int:
        """Return a new segment. Its name begins with the time, and is unique in a store that several services share."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        path = self.folder / f"{time.time_ns():016x}-{uuid.uuid4().hex}{SUFFIX}"
        file = os.open(path, flags, WRITABLE)
        try:
            write_all(file, MAGIC)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return file


def write_all(file: int, data: bytes | bytearray) -> None:
    """Write with one call, as long as there is room. Raises OSError; then a part may be written."""
    written = os.write(file, data)
    while written < len(data):  # the next call says why
        if not (more := os.write(file, data[written:])):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += more


def unwritable(error: OSError) -> Unavailable:
    """Return the error for a journal that cannot be written."""
    return Unavailable(f"the journal of predictions cannot be written: {error.strerror}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as a reader sees it. is_sealed, size: at the moment when it was listed."""

    path: Path
    size: int
    is_sealed: bool

    @property
    def name(self) -> str:
        """The name of the segment: its file's, without the suffix."""
        return self.path.name.removesuffix(SUFFIX)

    def seal(self) -> None:
        """Let its writer, if there is one, begin another segment."""
        self.path.chmod(SEALED)


def list_segments(folder: Path) -> list[Segment]:
    """Return every segment, the oldest first."""
    found = list[Segment]()
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # another process has copied the rest of it
        found.append(Segment(path, status.st_size, not status.st_mode & 0o200))
    return found


@dataclass(frozen=True, slots=True)
class FrameRead:
    """A frame, and the position in its segment behind it."""

    frame: JournalFrame
    position: int


class DamagedSegment(ValueError):
    """Bytes that no writer of this release has written. position: of the first of them."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position


def read_frames(path: Path, position: int, max_bytes: int) -> Iterator[FrameRead]:
    """Yield the complete frames behind a position, of at most `max_bytes` in all, and at least one.

    position: 0, or one that a frame ended at. What ends in the middle of a frame is left for later: it may still be
    being written, or its writer was killed. Raises DamagedSegment, and OSError.
    """
    with open(path, "rb", buffering=0) as file:
        position = position or len(MAGIC)
        head = os.pread(file.fileno(), len(MAGIC), 0)
        if not MAGIC.startswith(head):
            raise DamagedSegment(0, "it does not begin as a segment")
        data = os.pread(file.fileno(), max(max_bytes, HEADER.size), position)
        if len(data) >= HEADER.size and (length := HEADER.unpack_from(data)[0]) + HEADER.size > max_bytes:
            check_length(length, position)
            data = os.pread(file.fileno(), length + HEADER.size, position)
    start = 0
    while start + HEADER.size <= len(data):
        length, checksum = HEADER.unpack_from(data, start)
        check_length(length, position)
        end = start + HEADER.size + length
        if end > len(data):
            return
        frame = decode_frame(data[start + HEADER.size : end], checksum, position)
        position += end - start
        start = end
        yield FrameRead(frame, position)


def decode_frame(payload: bytes, checksum: int, position: int) -> JournalFrame:
    """Decode a frame. Raises DamagedSegment; position: of the frame."""
    if zlib.crc32(payload) != checksum:
        raise DamagedSegment(position, "the checksum of a frame is wrong")
    try:
        return DECODER.decode(payload)
    except msgspec.DecodeError as error:
        raise DamagedSegment(position, f"a frame that this release cannot read ({error})") from error


def check_length(length: int, position: int) -> None:
    """Raise DamagedSegment for a frame of an impossible length."""
    if not 0 < length <= MAX_FRAME_BYTES:
        raise DamagedSegment(position, f"a frame of {length} bytes")
