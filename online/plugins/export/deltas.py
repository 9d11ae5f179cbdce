"""Deltas between exported files, computed one at a time; the last few are kept.

two files, named by their sha256 --compare_files, compress--> what is sent

A delta follows from its two files, so its tag is known before it is computed, and a client that has it costs nothing.
"""

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import zstandard

from online.errors import NotFound, TooLarge
from online.plugins.export.file_deltas import FORMAT, TensorFile, TooMuchChanged, compare_files
from online.plugins.export.files import KeptExport
from online.plugins.export.learner_files import LearnerFile
from online.serving.turns import Turns

MAX_FILE_BYTES = 128 << 20  # a file on the disk is in memory up to three times, when it is checked
MAX_CHANGED_BYTES = 64 << 20  # of the tensors that differ; the text encoder is 91 MB, and differs after a tuning only
MAX_KEPT_BYTES = 16 << 20  # of all deltas of one model, compressed as they were sent
COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "zstd": lambda data: zstandard.compress(data, 10),
    "gzip": lambda data: gzip.compress(data, mtime=0),
}  # by the encoding's name, the best first


@dataclass(frozen=True, slots=True)
class VersionFile:
    """An exported file of a version, in memory or on the disk. open: slow."""

    version: int
    sha256: str
    size_bytes: int
    open: Callable[[], TensorFile]

    @classmethod
    def of_learner(cls, file: LearnerFile) -> "VersionFile":
        """Return the file of a learner."""
        return cls(file.version, file.sha256, len(file.data), partial(TensorFile.parse, file.data))

    @classmethod
    def of_export(cls, kept: KeptExport) -> "VersionFile":
        """Return an exported file on the disk."""
        open_file = partial(TensorFile.open, kept.path, kept.sha256)
        return cls(int(kept.manifest["version"]), kept.sha256, int(kept.manifest["bytes"]), open_file)


def tag_delta(old: VersionFile, new: VersionFile, encoding: str) -> str:
    """Return the tag of a delta. Raises TooLarge for files between which no delta is computed."""
    for file in (old, new):
        if file.size_bytes > MAX_FILE_BYTES:
            raise TooLarge(
                f"version {file.version} is a file of {file.size_bytes:,} bytes, and deltas are of files of at most "
                f"{MAX_FILE_BYTES:,} bytes: load the whole file"
            )
    pair = hashlib.sha256(f"{FORMAT} {old.sha256} {new.sha256}".encode()).hexdigest()
    return f"{pair}-{encoding}"


@dataclass(slots=True)
class VersionDeltas:
    """The deltas of one model. kept: what was sent, by tag."""

    kept: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    turns: Turns = field(default_factory=partial(Turns, "deltas"))

    async def find(self, old: VersionFile, new: VersionFile, encoding: str) -> bytes:
        """Return what turns one file into the other, as it is sent. Raises TooLarge, NotFound or Overloaded."""
        tag = tag_delta(old, new, encoding)
        if tag in self.kept:
            self.kept.move_to_end(tag)
            return self.kept[tag]
        return await self.turns.run(partial(self._find_or_compute, tag, old, new, encoding))

    async def _find_or_compute(self, tag: str, old: VersionFile, new: VersionFile, encoding: str) -> bytes:
        """Return several devices that follow the same versions wait for one computation."""
        if tag in self.kept:
            return self.kept[tag]
        delta = await asyncio.to_thread(compute_delta, old, new, encoding)
        self.kept[tag] = delta
        while sum(map(len, self.kept.values())) > MAX_KEPT_BYTES:
            self.kept.popitem(last=False)
        return delta

    def forget(self) -> None:
        """Drop what is kept: it may hold what a user who was erased has taught."""
        self.kept = OrderedDict()


def compute_delta(old: VersionFile, new: VersionFile, encoding: str) -> bytes:
    """Slow: of files of 90 MB it takes seconds. Raises NotFound and TooLarge."""
    try:
        delta = compare_files(old.open(), new.open(), MAX_CHANGED_BYTES)
    except FileNotFoundError as error:
        raise NotFound("one of the files was deleted just now: send the request again") from error
    except TooMuchChanged as error:
        raise TooLarge(f"between versions {old.version} and {new.version} {error}: load the whole file") from error
    return COMPRESSORS[encoding](delta) if encoding in COMPRESSORS else delta
