"""Snapshots to serve: numbered immutable folders, and one link that says which of them is live.

    snapshots/<model>/LIVE -> 12        a symbolic link, replaced by rename
    snapshots/<model>/12/manifest.json  version, parent, learned_until, sha256 of every file, ...
    snapshots/<model>/12/signature      of the manifest, where a state holds pickles
    snapshots/<model>/12/*.safetensors  a part that did not change is a hard link to the parent's file
    snapshots/<model>/12/on-disk        exists once the other files survive a loss of power

    snapshots/<model>/labels/stable -> 7            a version label; a labelled version is never pruned
    snapshots/<model>/labels/canary -> 9,percent=5  with the share of the traffic that it answers
    snapshots/<model>/set-aside/                    versions that were learned from another log than the present one
    snapshots/<model>/base/                         what was learned from events whose contents are no longer kept
    snapshots/<model>/FROZEN                        while this file exists nothing is learned; events wait in the log
    snapshots/<model>/ROLLED_BACK                   the newest roll back, also after newer versions went live again

Publishing is a rename; durability is an fsync, which may come later. Volatile versions hold what serving needs.
Durable versions hold the whole state, and learning resumes from the newest of them that is undamaged.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from online.errors import CorruptSnapshot, NotFound
from online.io.atomic import sync_folder
from online.io.wakeup import Wakeup
from online.snapshots.folder import AGREED, LiveVersion, LoadedSnapshot, SnapshotFolder
from online.snapshots.labels import VersionLabels
from online.snapshots.manifest import ManifestSeal
from online.snapshots.publish import SnapshotPublisher
from online.snapshots.roll_back import LiveControl
from online.snapshots.set_aside import SetAsideVersions

BASE = "base"


class Snapshots:
    """The snapshots of one model: the folder, and what is done with its versions.

    One process publishes; any number of processes read, roll back, set labels and freeze.
    """

    def __init__(
        self, path: Path, model: str, wakeup: Wakeup, retain: int = 20, seal: ManifestSeal | None = None
    ) -> None:
        """retain: how many versions pruning keeps. The others: see SnapshotFolder."""
        self.model = model
        self.folder = folder = SnapshotFolder(path, model, wakeup, seal)
        self.labels = VersionLabels(folder)
        self.control = LiveControl(folder)
        self.publisher = SnapshotPublisher(folder, self.control)
        self.retention = VersionPruner(folder, self.labels, retain)
        self.aside = SetAsideVersions(folder, self.labels, retain)
        self.fetch: Callable[[int], None] | None = None  # brings a version that another replica has

    def obtain(self, version: int) -> LoadedSnapshot:
        """Load a version, from another replica if it is not here. Raises NotFound, CorruptSnapshot or Unavailable."""
        try:
            return self.folder.load(version)
        except NotFound:
            if self.fetch is None:
                raise
        self.fetch(version)
        return self.folder.load(version)

    def forget_agreement(self) -> None:
        """Let the folder follow the store again, whatever it was brought to before."""
        (self.folder.path / AGREED).unlink(missing_ok=True)

    @property
    def has_base(self) -> bool:
        """Whether there is a base, or was one."""
        return (self.folder.path / BASE).is_dir()

    def base(self) -> "Snapshots":
        """Return the base (online/state/base_snapshot.py), as the only one of the snapshots in a folder of its own."""
        folder = self.folder
        return Snapshots(
            folder.path / BASE, f"{folder.model}/{BASE}", folder.wakeup, self.retention.retain, folder.seal
        )


__all__ = ["ManifestSeal", "Snapshots"]


class VersionPruner:
    """Removes versions. retain: how many are kept."""

    def __init__(self, folder: SnapshotFolder, labels: VersionLabels, retain: int) -> None:
        self.folder, self.labels, self.retain = folder, labels, retain

    def prune(self) -> list[int]:
        """Remove old versions and return their numbers.

        Kept are the newest `retain` versions, the newest `retain` durable ones, the live version, the
        one before it, those with a label, and those that are published meanwhile; also the newest that is on the disk.
        """
        manifests = self.folder.manifests()
        newest = manifests[0].version if manifests else 0
        durable = [manifest.version for manifest in manifests if manifest.durable]
        keep = {manifest.version for manifest in manifests[: self.retain]} | {*durable[: self.retain]}
        keep |= {next((version for version in durable if self.folder.is_on_disk(version)), 0)}
        with self.folder.locked():
            keep |= self._versions_in_use()
            removed = [version for version in self.folder.versions() if version < newest and version not in keep]
            for version in removed:  # renamed first: readers see a whole version or none
                (self.folder.path / str(version)).rename(self.folder.path / f".{version}.gone")
        for path in self.folder.path.glob(".*.gone"):  # including those that a killed process left
            shutil.rmtree(path, ignore_errors=True)
        return removed

    def remove_before(self, version: int) -> tuple[list[int], list[str]]:
        """Remove every version before this one, whatever its labels; return their numbers and those labels.

        If an older version is live, this one becomes live.
        """
        with self.folder.locked():
            live = self.folder.live()
            if live is None or live.version < version:
                self.folder.set_live(LiveVersion(version), durable=True)
            elif live.previous < version:
                self.folder.set_live(LiveVersion(live.version, live.held_until), durable=True)
            labels = [name for name, target in self.labels.read().items() if target.version < version]
            for name in labels:
                (self.labels.path / name).unlink(missing_ok=True)
            removed = [each for each in self.folder.versions() if each < version]
            for each in removed:
                (self.folder.path / str(each)).rename(self.folder.path / f".{each}.gone")
        for path in [*self.folder.path.glob(".*.gone"), *self.folder.path.glob(".*.part")]:
            if int(path.name[1:].partition(".")[0]) < version:
                shutil.rmtree(path, ignore_errors=True)
        sync_folder(self.folder.path)
        self.folder.wakeup.notify()
        return removed, sorted(labels)

    def _versions_in_use(self) -> set[int]:
        """Return the live version, the one before it, and those with a label."""
        labelled = {each.version for each in self.labels.read().values()}
        try:
            live = self.folder.live()
        except CorruptSnapshot:
            return labelled
        return labelled | ({live.version, live.previous} if live else set())
