"""Load the parts of a version, verified against the sha256 of each file."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from safetensors.numpy import load

from online.errors import CorruptSnapshot, NotFound
from online.models import Part, State
from online.snapshots.folder import SnapshotFolder
from online.snapshots.manifest import Manifest, SnapshotFile


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    manifest: Manifest
    parts: State


class SnapshotReader(SnapshotFolder):
    """Loads versions for serving and for resuming learning."""

    _sound_version = 0  # the live version that was last found to be undamaged

    def live_until(self, recipe: str) -> int:
        """As in `SnapshotFolder`; also -1 if the live version is damaged, unless a roll back holds it."""
        until = super().live_until(recipe)
        if until < 0:
            return until
        try:
            live = self.live()
            if live is not None and live.version != self._sound_version:
                self.load(live.version)
                self._sound_version = live.version
        except NotFound:
            return -1
        except CorruptSnapshot:
            return live.held_until if live is not None and live.held_until else -1
        return until

    def load(self, version: int, serving_only: bool = True, known: LoadedSnapshot | None = None) -> LoadedSnapshot:
        """Return the verified parts of a version.

        known: a snapshot in memory, whose parts are reused where the files are the same.
        Raises CorruptSnapshot if a file does not match its sha256, NotFound if there is no such version.
        """
        manifest = self.sealed_manifest(version)
        parts = {}
        for name, file in manifest.files.items():
            if file.serving or not serving_only:
                parts[name] = reuse_part(name, file, known) or self._read_part(version, name, file)
        return LoadedSnapshot(manifest, parts)

    def durable(self, recipe: str, since: int = 0) -> Iterator[LoadedSnapshot]:
        """Yield the versions that learning may resume from, newest first, without damaged ones.

        since: the offset that they must have learned, because contents of events before it are gone.
        """
        for version in reversed(self.versions()):
            try:
                manifest = self.manifest(version)
                usable = manifest.durable and manifest.recipe == recipe and manifest.learned_until >= since
                loaded = self.load(version, serving_only=False) if usable else None
            except (CorruptSnapshot, NotFound):
                continue
            if loaded is not None:
                yield loaded

    def _read_part(self, version: int, name: str, file: SnapshotFile) -> Part:
        try:
            data = (self.folder / str(version) / f"{name}.safetensors").read_bytes()
        except FileNotFoundError:
            if (self.folder / str(version)).exists():
                raise CorruptSnapshot(f"{self.model} version {version} lacks its file {name}") from None
            raise NotFound(f"{self.model} has no version {version}") from None
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise CorruptSnapshot(f"{self.model} version {version}: the file {name} does not match its sha256")
        return Part(load(data), file.serving)


def reuse_part(name: str, file: SnapshotFile, known: LoadedSnapshot | None) -> Part | None:
    """Return the part of a snapshot in memory if its file is the same."""
    same = known is not None and known.manifest.files.get(name) == file
    return known.parts.get(name) if known is not None and same else None
