"""Files on their way into the state folder: resumed where an attempt was cut off, and verified while they arrive.

source --chunks--> <sha256>.part --all bytes, right sha256--> <sha256>.safetensors
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from online.errors import Unavailable
from online.plugins.cluster.kept_versions import SignedManifest
from online.snapshots.manifest import SnapshotFile

CHUNK_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 16_000_000
OpenFrom = Callable[[int], AbstractContextManager[tuple[int, Iterable[bytes]]]]


class VersionSource(Protocol):
    """A place that has versions of this service: another replica, or a bucket. Raises NotFound and Unavailable, which name it."""

    name: str

    def load_manifest(self, model: str, version: int) -> SignedManifest:
        """Return the manifest of a version, whose signature is valid."""

    def fetch_file(self, model: str, file: SnapshotFile, target: Path) -> None:
        """Write a file with this sha256 to `target`."""


class WrongContent(Unavailable):
    """A source has sent other bytes than its versions consist of."""


def receive_file(source: str, file: SnapshotFile, target: Path, open_from: OpenFrom) -> None:
    """Write a file, and go on where an earlier attempt has ended: its bytes are in `<sha256>.part` beside the target.

    source: its name, for errors. open_from: opens the file at a byte; yields the byte at which it really begins (this one or 0), and
    chunks. Raises Unavailable where it ends early; the next attempt continues. Raises WrongContent; the next attempt begins again.
    """
    part = target.with_name(f"{file.sha256}.part")
    start = part.stat().st_size if part.exists() else 0
    if start == file.bytes and part.exists():
        received, sha256 = start, hash_file(part)
    else:
        with open_from(start if start < file.bytes else 0) as (at, chunks):
            received, sha256 = append_chunks(source, file, part, at, chunks)
    if received < file.bytes:
        raise Unavailable(f"{source} sent {received} of the {file.bytes} bytes of the file {file.sha256}; try again")
    if sha256 != file.sha256:
        part.unlink()
        raise WrongContent(
            f"{source} sent other bytes than the file {file.sha256}; restore the version there, or delete it"
        )
    part.rename(target)


def append_chunks(source: str, file: SnapshotFile, part: Path, at: int, chunks: Iterable[bytes]) -> tuple[int, str]:
    """Write chunks from a byte on; return the number of bytes that the file then has, and its sha256. Raises WrongContent."""
    with open(part, "r+b" if at else "wb") as out:
        digest = hashlib.sha256()
        for chunk in read_chunks(out) if at else ():
            digest.update(chunk)
        for chunk in chunks:
            at += len(chunk)
            if at > file.bytes:
                break
            digest.update(chunk)
            out.write(chunk)
    if at > file.bytes:
        part.unlink()
        raise WrongContent(f"{source} sent more than the {file.bytes} bytes of the file {file.sha256}")
    return at, digest.hexdigest()


def read_chunks(file: BinaryIO) -> Iterable[bytes]:
    """Yield the content of a file from its position to its end."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def hash_file(path: Path) -> str:
    """Return the sha256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
