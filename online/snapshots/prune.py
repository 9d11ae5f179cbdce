"""Apply retention: remove versions that are neither new nor in use."""

import shutil

from online.errors import CorruptSnapshot
from online.io.atomic import sync_folder
from online.snapshots.folder import LiveVersion, SnapshotFolder
from online.snapshots.labels import VersionLabels


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
        """The live version, the one before it, and those with a label."""
        labelled = {each.version for each in self.labels.read().values()}
        try:
            live = self.folder.live()
        except CorruptSnapshot:
            return labelled
        return labelled | ({live.version, live.previous} if live else set())
