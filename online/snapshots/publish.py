"""Publish a version: written aside, renamed into place, and made live; before or after that, put on the disk.

.0.new.part/ --write parts--> a number, the manifest --> rename to 12/ --> LIVE -> 12 --> wake the servers --> fsync, 12/on-disk

Servers need not wait for the disk: a version that a loss of power has damaged does not match its digests and is not
used. Where contents are deleted because a version has learned them, that version must be on the disk.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from safetensors.numpy import save

from online.errors import Unavailable
from online.io.atomic import sync_file, sync_folder, write_file
from online.models import State, StatePart
from online.snapshots.folder import MANIFEST, ON_DISK, SIGNATURE, LiveVersion, SnapshotFolder
from online.snapshots.manifest import Manifest, SnapshotFile, digest_files
from online.snapshots.roll_back import LiveControl

PREPARED = ".0.new.part"  # no version has the number 0: an erasure deletes what is older than it


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """The files of a version that has no number yet."""

    path: Path
    state: State
    files: Mapping[str, SnapshotFile]

    @property
    def weights_sha256(self) -> str:
        """One digest of all files that a server loads."""
        return digest_files(self.files)


class SnapshotPublisher:
    """Writes new versions."""

    def __init__(self, folder: SnapshotFolder, control: LiveControl) -> None:
        self.folder, self.control = folder, control
        self._written: dict[str, tuple[int, int, SnapshotFile]] = {}  # part -> (revision, version, file) last written

    def publish(self, state: State, manifest: Manifest, replaces: bool = False, waits: bool = False) -> Manifest:
        """Write a version, and make it live if it has learned more than the live one, or replaces it.

        While the model is frozen the version is written but does not go live. waits: it is on the disk before anybody
        sees it; otherwise it survives the end of this process, and a loss of power only after `make_durable`. Raises
        Unavailable if the disk refuses a write; then nothing has changed.
        """
        published = self.write(state, manifest, waits)
        with self.folder.locked():
            is_next = replaces or self.folder.goes_live(manifest.recipe, manifest.learned_until, manifest.taught_until)
            if is_next and self.control.frozen() is None:
                self._set_live(manifest)
        if waits:
            sync_folder(self.folder.path)
        self.folder.wakeup.notify()
        return published

    def _set_live(self, manifest: Manifest) -> None:
        """Make a new version live. The lock is held."""
        version = manifest.version
        try:
            self.folder.set_live(LiveVersion(version, previous=self.folder.find_previous(manifest)), durable=False)
        except OSError as error:
            raise Unavailable(
                f"version {version} of {self.folder.model} could not be made live: {error.strerror}"
            ) from error
        self.folder.sound_version = version

    def write(self, state: State, manifest: Manifest, waits: bool = False) -> Manifest:
        """Write a version that does not go live. waits: as in `publish`. Raises Unavailable; then nothing has changed."""
        return self.place(self.prepare(state), manifest, waits)

    def prepare(self, state: State) -> PreparedVersion:
        """Write the files of a version aside, before it has a number. Raises Unavailable; then nothing has changed."""
        aside = self.folder.path / PREPARED
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            files = {name: self._write_part(aside, name, part) for name, part in state.items()}
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise self._refuse("a version", error) from error
        return PreparedVersion(aside, state, files)

    def place(self, prepared: PreparedVersion, manifest: Manifest, waits: bool = False) -> Manifest:
        """Let a prepared version count under its number. waits: as in `publish`. Raises Unavailable; then nothing has changed."""
        try:
            whole = self._write_manifest(prepared, manifest)
            if waits:
                put_on_disk(prepared.path)
            prepared.path.rename(self.folder.path / str(manifest.version))
        except OSError as error:
            shutil.rmtree(prepared.path, ignore_errors=True)
            raise self._refuse(f"version {manifest.version}", error) from error
        self._note_parts(prepared, whole)
        return whole

    def complete(self, prepared: PreparedVersion, manifest: Manifest) -> Manifest | None:
        """Add to a version what only a learner reads, so that learning can resume from it.

        The files that a server loads stay as they are, and the manifest is replaced in one step. None if the state would give
        other files than the version has, or for a signed manifest, which is a second file. Raises Unavailable; then nothing has changed.
        """
        if self.folder.seal is not None:
            return None
        folder, before = self.folder.path / str(manifest.version), self.folder.manifest(manifest.version).files
        if any(prepared.files.get(name) != file for name, file in before.items()):
            return None
        try:
            whole = self._write_manifest(prepared, manifest)
            for name in whole.files.keys() - before.keys():
                os.replace(prepared.path / f"{name}.safetensors", folder / f"{name}.safetensors")
            os.replace(prepared.path / MANIFEST, folder / MANIFEST)
        except OSError as error:
            raise self._refuse(f"version {manifest.version}", error) from error
        finally:
            shutil.rmtree(prepared.path, ignore_errors=True)
        self._note_parts(prepared, whole)
        return whole

    def _refuse(self, what: str, error: OSError) -> Unavailable:
        return Unavailable(f"{what} of {self.folder.model} could not be written: {error.strerror}")

    def _note_parts(self, prepared: PreparedVersion, written: Manifest) -> None:
        for name, part in prepared.state.items():
            if part.revision is not None:
                self._written[name] = (part.revision, written.version, written.files[name])

    def make_durable(self, version: int) -> None:
        """Put a version that this process has published on the disk. Raises Unavailable.

        Safe in another thread. After an error the version must not be tried again, because the system tells an error
        once and then takes the files for written: `forget_parts` and another version must follow.
        """
        try:
            put_on_disk(self.folder.path / str(version))
            sync_folder(self.folder.path)
        except OSError as error:
            raise Unavailable(
                f"version {version} of {self.folder.model} is not on the disk: {error.strerror}"
            ) from error

    def forget_parts(self) -> None:
        """Let the next version have files of its own for every part: those of earlier ones may not have reached the disk."""
        self._written.clear()

    def _write_manifest(self, prepared: PreparedVersion, manifest: Manifest) -> Manifest:
        """Write the manifest, and its signature where there must be one, beside the files that it describes."""
        whole = replace(manifest, files=prepared.files, weights_sha256=prepared.weights_sha256)
        described = json.dumps(asdict(whole), indent=1).encode()
        write_file(prepared.path / MANIFEST, described, durable=False)
        if self.folder.seal is not None:
            signature = self.folder.seal.sign(self.folder.sealed_message(manifest.version, described))
            write_file(prepared.path / SIGNATURE, signature.encode(), durable=False)
        return whole

    def _write_part(self, aside: Path, name: str, part: StatePart) -> SnapshotFile:
        path = aside / f"{name}.safetensors"
        revision, version, file = self._written.get(name, (None, 0, None))
        if file is not None and revision == part.revision and self._link_part(version, name, path):
            return file
        contiguous = {
            key: tensor if tensor.flags.c_contiguous else tensor.copy() for key, tensor in part.tensors.items()
        }
        data = save(contiguous)
        write_file(path, data, durable=False)
        return SnapshotFile(hashlib.sha256(data).hexdigest(), len(data), part.serving)

    def _link_part(self, version: int, name: str, path: Path) -> bool:
        """Link the file of an earlier version; False if that is not possible."""
        try:
            os.link(self.folder.path / str(version) / f"{name}.safetensors", path)
        except OSError:
            return False  # pruned in the meantime, or a file system without hard links
        return True


def put_on_disk(folder: Path) -> None:
    """Wait until the files of a version are on the disk, then note it in the folder."""
    for path in folder.iterdir():
        sync_file(path)
    write_file(folder / ON_DISK, b"", durable=True)
    sync_folder(folder)
