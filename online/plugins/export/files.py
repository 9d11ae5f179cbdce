"""Exported files on the disk, so that the same version need not be exported again.

    <state>/exports/<model>/<version>-<format>-<digest>/    the exported file, and manifest.json

An entry is written aside, in .<version>-<random>, and renamed. Entries of versions that are gone are deleted, because a version that was deleted for an
erasure must not live on in another form; so are those that a killed process has left aside, and the entries that were read
least recently, beyond MAX_BYTES.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from online.io.atomic import write_file
from online.io.locks import lock_file
from online.plugins.export.exporter import ExportedModel
from online.plugins.export.formats import ExportFormat
from online.schemas.json_values import JSONObject
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest

MANIFEST = "manifest.json"
MAX_BYTES = 1 << 30  # of all entries of one model
ABANDONED_S = 600  # to write an entry, which is computed before, takes seconds


@dataclass(frozen=True, slots=True)
class KeptExport:
    """An exported file on the disk, and its manifest as JSON."""

    path: Path
    manifest: JSONObject

    @property
    def sha256(self) -> str:
        """The hash of the file."""
        return str(self.manifest["sha256"])


class ExportFolder:
    """The entries of one model. folder: is created with the first entry. clock: seconds since 1970, as the times of files."""

    def __init__(
        self,
        folder: Path,
        snapshots: Snapshots,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.snapshots, self.max_bytes, self.clock = folder, snapshots, max_bytes, clock

    def _entry(self, version: Manifest, form: ExportFormat) -> Path:
        key = json.dumps([version.weights_sha256, version.state_sha256, form.version])
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self.folder / f"{version.version}-{form.name}-{digest}"

    def locked(self) -> IO[str]:
        """Let other processes wait that export a version of this model: they find then what this one has kept."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lock_file(self.folder.parent / f".{self.folder.name}.lock")

    def find(self, version: Manifest, form: ExportFormat) -> KeptExport | None:
        """Return the entry of a version in a format; None if there is none that is whole."""
        entry = self._entry(version, form)
        try:
            manifest = json.loads((entry / MANIFEST).read_bytes())
            path = entry / form.file
            if path.stat().st_size != manifest["bytes"]:
                return None
            os.utime(entry)
        except (OSError, ValueError, KeyError, TypeError):  # there is none, or a crash or somebody damaged it
            return None
        return KeptExport(path, manifest)

    def keep(self, version: Manifest, form: ExportFormat, exported: ExportedModel) -> None:
        """Write an entry, then delete what is not to be kept."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = self._entry(version, form)
        aside = Path(tempfile.mkdtemp(dir=self.folder, prefix=f".{version.version}-"))
        try:
            with suppress(FileNotFoundError):  # another process has deleted it, because the version is gone
                write_file(aside / form.file, exported.data, durable=False)
                write_file(aside / MANIFEST, json.dumps(exported.manifest.to_json()).encode(), durable=False)
                shutil.rmtree(entry, ignore_errors=True)  # a damaged one
                with suppress(OSError):  # another process has written the same entry meanwhile
                    aside.rename(entry)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self.remove_gone()
        self._remove_oldest(kept=entry)

    def remove_gone(self) -> int:
        """Delete the entries of versions that are no longer kept, also unfinished ones, and all that were abandoned; return how many."""
        present = {str(version) for version in self.snapshots.folder.versions()}
        unfinished = [*self._unfinished()]
        gone = [path for path in (*self._entries(), *unfinished) if version_of(path) not in present]
        abandoned = [path for path in unfinished if read_time(path) < self.clock() - ABANDONED_S]
        for path in {*gone, *abandoned}:
            shutil.rmtree(path, ignore_errors=True)
        return len({*gone, *abandoned})

    def _remove_oldest(self, kept: Path) -> None:
        sizes = {entry: count_bytes(entry) for entry in self._entries()}
        for entry in sorted(sizes.keys() - {kept}, key=lambda entry: (read_time(entry), entry.name)):
            if sum(sizes.values()) <= self.max_bytes:
                return
            shutil.rmtree(entry, ignore_errors=True)
            del sizes[entry]

    def _entries(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from (path for path in self.folder.iterdir() if path.name[0].isdigit())

    def _unfinished(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from (path for path in self.folder.iterdir() if path.name.startswith("."))


def version_of(path: Path) -> str:
    """Return the number in the name of an entry, or of one that is not finished."""
    return path.name.lstrip(".").partition("-")[0]


def count_bytes(entry: Path) -> int:
    """Return the size of an export's folder; 0 if it is gone."""
    total = 0
    with suppress(OSError):  # another process deletes it
        for path in entry.iterdir():
            total += path.stat().st_size
    return total


def read_time(entry: Path) -> float:
    """Return when an export was used last; 0 if it is gone."""
    with suppress(OSError):
        return entry.stat().st_mtime
    return 0.0
