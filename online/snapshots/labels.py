"""Version labels: names for versions, some of which are assigned automatically."""

import re
from contextlib import suppress
from dataclasses import dataclass

from online.errors import BadInput, NotFound
from online.io.atomic import sync_folder
from online.snapshots.folder import SnapshotFolder, replace_link
from online.snapshots.manifest import Manifest

LATEST, PREVIOUS, CANARY, SHADOW = "latest", "previous", "canary", "shadow"
LIVE = "live"  # another name for the latest
MOVING = (LATEST, LIVE, PREVIOUS)  # labels that are assigned automatically and cannot be set
LABEL = re.compile(r"[A-Za-z0-9_]{1,64}")
LABEL_TARGET = re.compile(r"(\d{1,18})(?:,percent=(\d{1,3}(?:\.\d{1,6})?))?")


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """The target of a label. percent: the share of the traffic that the version answers, for a canary."""

    version: int
    percent: float = 0.0

    def target(self) -> str:
        """Return the target of the label's link."""
        return f"{self.version},percent={self.percent:f}" if self.percent else str(self.version)


class VersionLabels:
    """Reads, sets and deletes the labels of the versions in a folder."""

    def __init__(self, folder: SnapshotFolder) -> None:
        self.folder, self.path = folder, folder.path / "labels"

    def read(self) -> dict[str, LabelTarget]:
        """Return the labels that were set."""
        found = {}
        with suppress(FileNotFoundError):
            for path in self.path.iterdir():
                if LABEL.fullmatch(path.name) and (target := LABEL_TARGET.fullmatch(str(path.readlink()))):
                    found[path.name] = LabelTarget(int(target[1]), float(target[2] or 0))
        return found

    def names(self) -> dict[int, list[str]]:
        """Return version -> its labels, beginning with those assigned automatically."""
        live = self.folder.live()
        pairs = [(live.version, LATEST), (live.previous, PREVIOUS)] if live else []
        named: dict[int, list[str]] = {}
        for version, name in [*pairs, *((each.version, label) for label, each in self.read().items())]:
            named.setdefault(version, []).append(name)
        return named

    def resolve(self, name: str) -> int:
        """Return the number of the version with this number or label.

        Raises BadInput for a name that cannot be a label, NotFound for an unknown label.
        """
        if re.fullmatch(r"[0-9]{1,18}", name):
            return int(name)
        if not LABEL.fullmatch(name):
            raise BadInput(f"version must be a number such as 12, or a label, not {name[:40]!r}")
        found = [version for version, names in self.names().items() if name in names and version]
        if not found:
            raise NotFound(f"no version of {self.folder.model} has the label {name!r}")
        return found[0]

    def set(self, name: str, target: LabelTarget) -> Manifest:
        """Give a version a label, or move the label to it. The version is verified first.

        Raises BadInput, NotFound or CorruptSnapshot.
        """
        check_label(name, target)
        with self.folder.locked():
            manifest = self.folder.load(target.version).manifest
            self.path.mkdir(exist_ok=True)
            replace_link(self.path / name, target.target(), durable=True)
        self.folder.wakeup.notify()
        return manifest

    def delete(self, name: str) -> None:
        """Raise NotFound."""
        if name not in self.read():
            raise NotFound(f"no version of {self.folder.model} has the label {name[:80]!r}")
        with self.folder.locked():
            (self.path / name).unlink(missing_ok=True)
            sync_folder(self.path)
        self.folder.wakeup.notify()


def check_label(name: str, target: LabelTarget) -> None:
    """Raise BadInput for a label that cannot be set."""
    if name in MOVING:
        raise BadInput(f"the label {name} is assigned automatically; choose another")
    if target.percent and name != CANARY:
        raise BadInput(f"only the label {CANARY} has a share of the traffic")
    if not LABEL.fullmatch(name):
        raise BadInput(f"a label has 1 to 64 letters, digits or '_', not {name[:80]!r}")
