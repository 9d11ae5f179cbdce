"""The file of a backup: a tar, compressed with zstd, whose last member says what the others must be.

    tables/<table>/000000.msgpack      rows, each an array of the columns that the manifest names
    state/snapshots/<model>/12/...     files of the state folder, as they are there
    manifest.json                      format, release, revisions, heads, and the sha256 of every member before it

A file that was cut off has no manifest, and is refused. So is one in which a member differs from its sha256.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import zstandard

from online.errors import BadInput
from online.io.atomic import sync_folder
from online.io.progress import Progress

FORMAT = 1
MANIFEST = "manifest.json"
LEVEL = 6
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SavedTable:
    """The columns of a table, in the order of its rows, and how many rows there are."""

    columns: tuple[str, ...]
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The part of a backup that is of one model. head: the last offset. versions: (version, learned until, hash of the state), newest first."""

    head: int
    versions: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The contents of a backup. instance: the name of the store. revisions: of the tables, by group. sha256: by member."""

    release: str
    created_at: str
    instance: str
    revisions: Mapping[str, str]
    tables: Mapping[str, SavedTable]
    models: Mapping[str, SavedModel]
    has_keys: bool
    sha256: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def parse(cls, data: bytes) -> "BackupManifest":
        """Parse a manifest. Raises ValueError, TypeError, KeyError or AttributeError for one that is damaged."""
        fields = json.loads(data)
        if fields["format"] != FORMAT:
            raise ValueError(f"format {fields['format']!r}")
        tables = {name: SavedTable(tuple(each["columns"]), each["rows"]) for name, each in fields.pop("tables").items()}
        models = {
            name: SavedModel(each["head"], tuple((v, until, state) for v, until, state in each["versions"]))
            for name, each in fields.pop("models").items()
        }
        return cls(tables=tables, models=models, **fields)


class ArchiveWriter:
    """Adds members to a new file, and notes the sha256 of each."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self.tar, self.sha256 = tar, dict[str, str]()

    def add(self, name: str, data: bytes) -> None:
        """Add a member from memory."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o600
        self.tar.addfile(info, io.BytesIO(data))
        self.sha256[name] = hashlib.sha256(data).hexdigest()

    def add_file(self, name: str, path: Path) -> None:
        """Add a file, which must not change meanwhile."""
        with path.open("rb") as file:
            info = tarfile.TarInfo(name)
            info.size, info.mode = os.fstat(file.fileno()).st_size, 0o600
            hashed = HashingReader(file)
            self.tar.addfile(info, hashed)
        self.sha256[name] = hashed.digest.hexdigest()


class HashingReader(io.RawIOBase):
    """Reads a file, and computes the sha256 of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self.file.read(size)
        self.digest.update(data)
        return data


@contextmanager
def write_archive(path: Path) -> Iterator[ArchiveWriter]:
    """Yield the writer of a new file, which has its name once the block has ended, durably. Otherwise nothing stays of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            with (
                zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(file, closefd=False) as packed,
                tarfile.open(fileobj=packed, mode="w|") as tar,
            ):
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def finish(archive: ArchiveWriter, manifest: BackupManifest) -> None:
    """Add the manifest, as the last member."""
    archive.add(MANIFEST, json.dumps(asdict(manifest), indent=1).encode())


@contextmanager
def open_archive(path: Path) -> Iterator[Iterator[tuple[str, IO[bytes], int]]]:
    """Yield (name, file, bytes) of each member, to be read in this order. Raises BadInput for what is no backup."""
    try:
        with (
            path.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as tar,
        ):
            yield list_members(tar)
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}; name a file that `online backup` has written") from None
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BadInput(f"{path} is no backup, or is cut off: {error}; take another one") from None


def list_members(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield the members of a tar. Raises BadInput for anything but a file with a plain name."""
    for info in tar:
        parts = Path(info.name).parts
        file = tar.extractfile(info) if info.isreg() else None
        if file is None or ".." in parts or info.name.startswith("/"):
            raise BadInput(f"the backup has a member {info.name!r} that is no plain file; nothing was restored")
        yield info.name, file, info.size


def verify_archive(path: Path, tick: Progress) -> BackupManifest:
    """Return the manifest, after every member was compared with it. Raises BadInput, and then nothing was changed."""
    found, manifest, total, done = dict[str, str](), b"", path.stat().st_size if path.exists() else 0, 0
    with open_archive(path) as members:
        for name, file, size in members:
            if name == MANIFEST:
                manifest = file.read()
                continue
            found[name] = hash_stream(file)
            done += size
            tick("verifying", min(done, total), max(total, 1))
    try:
        parsed = BackupManifest.parse(manifest)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"its manifest is damaged ({error})" if manifest else "it has no manifest, as after an interruption"
        raise BadInput(f"{path} cannot be restored: {reason}; take another backup. Nothing was changed") from None
    wrong = sorted(name for name in found.keys() | parsed.sha256.keys() if found.get(name) != parsed.sha256.get(name))
    if wrong:
        raise BadInput(
            f"{path} is damaged: {wrong[0]} does not have its sha256; take another backup. Nothing was changed"
        )
    return parsed


def hash_stream(file: IO[bytes]) -> str:
    """Return the sha256 of the rest of a file."""
    digest = hashlib.sha256()
    while data := file.read(READ_BYTES):
        digest.update(data)
    return digest.hexdigest()
