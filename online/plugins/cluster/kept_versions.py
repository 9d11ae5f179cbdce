"""The versions in a snapshot folder, with what other replicas ask about them. Each manifest is read once.

files/<sha256>  --which kept version names it?-->  snapshots/<model>/12/weights.safetensors
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from online.errors import CorruptSnapshot, NotFound
from online.serving.parts import ModelPart
from online.snapshots.folder import MANIFEST, SIGNATURE, SnapshotFolder

NEWEST = 20  # versions that are listed, and durable versions beside them


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """The facts of a version by which a replica chooses one. files: the name of its part by the sha256 of its file."""

    version: int
    learned_until: int
    durable: bool
    state_sha256: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SignedManifest:
    """A manifest as it is in a folder. signature: by a replica, for the way. seal: of a model whose state is signed; else ""."""

    data: bytes
    signature: str
    seal: str = ""


class KeptVersions(ModelPart):
    """Finds versions and files in a snapshot folder. Safe in threads."""

    def __init__(self, folder: SnapshotFolder) -> None:
        self.folder = folder
        self._known: dict[
            tuple[int, int, int], VersionSummary
        ] = {}  # by version, and what tells its manifest from another

    def list_newest(self) -> list[VersionSummary]:
        """Return the newest versions, and the newest durable ones, newest first."""
        versions = self._list_all()
        durable = [each for each in versions if each.durable]
        listed = {each.version for each in (*versions[:NEWEST], *durable[:NEWEST])}
        return [each for each in versions if each.version in listed]

    def find_files(self, sha256: str) -> Iterator[Path]:
        """Yield the files that manifests name by this sha256, of the newest version first. They may be damaged, or gone by now."""
        for each in self._list_all():
            if sha256 in each.files:
                yield self.folder.path / str(each.version) / f"{each.files[sha256]}.safetensors"

    def _list_all(self) -> list[VersionSummary]:
        """Return every undamaged version, newest first."""
        known, found = self._known, dict[tuple[int, int, int], VersionSummary]()
        for version in reversed(self.folder.versions()):
            try:
                stat = (self.folder.path / str(version) / MANIFEST).stat()
                key = version, stat.st_ino, stat.st_mtime_ns
                found[key] = known.get(key) or self._read(version)
            except (FileNotFoundError, NotFound, CorruptSnapshot):
                continue
        self._known = found
        return list(found.values())

    def _read(self, version: int) -> VersionSummary:
        manifest = self.folder.manifest(version)
        files = {file.sha256: name for name, file in manifest.files.items()}
        return VersionSummary(version, manifest.learned_until, manifest.durable, manifest.state_sha256, files)


def read_manifest(folder: SnapshotFolder, version: int) -> tuple[bytes, str]:
    """Return the bytes of a manifest, and its seal; "" without one. Raises NotFound."""
    path = folder.path / str(version)
    try:
        data = (path / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{folder.model} has no version {version}") from None
    try:
        return data, (path / SIGNATURE).read_text(errors="replace")
    except FileNotFoundError:
        return data, ""
