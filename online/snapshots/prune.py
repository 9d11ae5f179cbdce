"""Apply retention: remove versions that are neither new nor in use."""

import shutil

from online.errors import CorruptSnapshot
from online.snapshots.labels import VersionLabels


class SnapshotPruner(VersionLabels):
    """Removes versions."""

    def prune(self) -> list[int]:
        """Remove old versions and return their numbers.

        Kept are the newest `retain` versions, the newest `retain` durable ones, the live version, the
        one before it, and those with a label.
        """
        manifests = self.manifests()
        durable = [manifest.version for manifest in manifests if manifest.durable][: self.retain]
        keep = {manifest.version for manifest in manifests[: self.retain]} | set(durable)
        with self._locked():
            keep |= self._versions_in_use()
            removed = [version for version in self.versions() if version not in keep]
            for version in removed:  # renamed first: readers see a whole version or none
                (self.folder / str(version)).rename(self.folder / f".{version}.gone")
        for path in self.folder.glob(".*.gone"):  # including those that a killed process left
            shutil.rmtree(path, ignore_errors=True)
        return removed

    def _versions_in_use(self) -> set[int]:
        """The live version, the one before it, and those with a label."""
        labelled = {each.version for each in self.labels().values()}
        try:
            live = self.live()
        except CorruptSnapshot:
            return labelled
        return labelled | ({live.version, live.previous} if live else set())
