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
        self._known: dict[int, VersionSummary] = {}

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
        """Return every undamaged version, newest first. A version never changes, and its number is not used again."""
        known, versions = self._known, reversed(self.folder.versions())
        found = [known.get(version) or self._read(version) for version in versions]
        self._known = {each.version: each for each in found if each is not None}
        return list(self._known.values())

    def _read(self, version: int) -> VersionSummary | None:
        try:
            manifest = self.folder.manifest(version)
        except (NotFound, CorruptSnapshot):
            return None
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
