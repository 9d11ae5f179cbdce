"""What to serve: numbered immutable folders, and one link that says which of them is live.

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

from pathlib import Path

from online.io.wakeup import Wakeup
from online.snapshots.folder import SnapshotFolder
from online.snapshots.labels import VersionLabels
from online.snapshots.manifest import ManifestSeal
from online.snapshots.prune import VersionPruner
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

    @property
    def has_base(self) -> bool:
        """Whether there is a base, or was one."""
        return (self.folder.path / BASE).is_dir()

    def base(self) -> "Snapshots":
        """The base (online/state/base_snapshot.py), as the only one of the snapshots in a folder of its own."""
        folder = self.folder
        return Snapshots(
            folder.path / BASE, f"{folder.model}/{BASE}", folder.wakeup, self.retention.retain, folder.seal
        )


__all__ = ["Snapshots"]
