"""Set versions aside that were learned from another log than the present one.

    snapshots/<model>/12/  --rename-->  snapshots/<model>/set-aside/12/
                                        snapshots/<model>/set-aside/notice.json   when, why, which

They are moved and not deleted, because only an operator knows which log is the right one. Versions
that are set aside are never served, and nothing is learned from them. Their numbers are not used again.
The erasure of a user deletes them, because nobody can say any more who is in them.
"""

import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from online.errors import CorruptSnapshot
from online.io.atomic import replace_file, sync_folder
from online.snapshots.folder import AGREED, ROLLED_BACK, LiveVersion, SnapshotFolder, list_numbers
from online.snapshots.labels import VersionLabels


@dataclass(frozen=True, slots=True)
class SetAsideRecord:
    """The record of versions that were set aside.

    learned_until: the highest offset that they had learned. head: the last offset of the log at that time. labels:
    those that named them, and are dropped. learned_again: whether a version has learned the log until `head`.
    deleted: whether an erasure has deleted the versions.
    """

    at: str
    reason: str
    versions: tuple[int, ...]
    learned_until: int
    head: int
    labels: tuple[str, ...] = ()
    learned_again: bool = False
    deleted: bool = False

    @classmethod
    def parse(cls, data: bytes) -> "SetAsideRecord":
        """Parse a record."""
        fields = json.loads(data)
        versions, labels = tuple(fields.pop("versions")), tuple(fields.pop("labels"))
        return cls(versions=versions, labels=labels, **fields)


class SetAsideVersions:
    """Moves versions out of service, and remembers why. retain: how many of them are kept."""

    def __init__(self, folder: SnapshotFolder, labels: VersionLabels, retain: int) -> None:
        self.folder, self.labels, self.retain = folder, labels, retain
        self.path = folder.aside

    def find(self) -> SetAsideRecord | None:
        """Return the newest notice; None if nothing is set aside, or an operator has removed the folder."""
        try:
            return SetAsideRecord.parse((self.path / "notice.json").read_bytes())
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def move(self, notice: SetAsideRecord, live: int | None) -> SetAsideRecord:
        """Move the notice's versions aside, and drop what names them; return the notice with the dropped labels.

        live: the version that becomes live if the live one is among them; None: none does. A process that is
        killed meanwhile leaves versions that are found again. Only the newest `retain` are kept.
        """
        with self.folder.locked():
            foreign = {*notice.versions, *list_numbers(self.path)}
            labels = tuple(sorted(name for name, each in self.labels.read().items() if each.version in foreign))
            notice = replace(notice, labels=labels)
            self.path.mkdir(exist_ok=True)
            self._write_notice(replace(notice, versions=tuple(sorted(foreign))))
            self._replace_live(foreign, live, notice.head)
            (self.folder.path / ROLLED_BACK).unlink(missing_ok=True)  # its offsets may be those of another log
            (self.folder.path / AGREED).unlink(missing_ok=True)  # likewise its revision
            for name in labels:
                (self.labels.path / name).unlink(missing_ok=True)
            for version in notice.versions:
                shutil.rmtree(self.path / str(version), ignore_errors=True)
                with suppress(FileNotFoundError):
                    (self.folder.path / str(version)).rename(self.path / str(version))
            sync_folder(self.folder.path)
        for version in list_numbers(self.path)[: -self.retain]:
            shutil.rmtree(self.path / str(version), ignore_errors=True)
        self.folder.wakeup.notify()
        return notice

    def displace(self, version: int) -> None:
        """Move a version aside whose number belongs to another one, as after a fail-over of the store; nothing if there is none."""
        with self.folder.locked():
            if not (self.folder.path / str(version)).exists():
                return
            self.path.mkdir(exist_ok=True)
            shutil.rmtree(self.path / str(version), ignore_errors=True)
            (self.folder.path / str(version)).rename(self.path / str(version))
            (self.folder.path / AGREED).unlink(missing_ok=True)  # it may name this version
        self.folder.forget_facts(version)

    def mark_learned_again(self, until: int) -> None:
        """Record that a version has learned until an offset: after the notice's `head` all is as it should be."""
        notice = self.find()
        if notice is None or notice.learned_again or until < notice.head:
            return
        with self.folder.locked():
            if (notice := self.find()) is not None:
                self._write_notice(replace(notice, learned_again=True))
        self.folder.wakeup.notify()

    def versions(self) -> list[int]:
        """Return the versions that were set aside and of which anything is left, oldest first."""
        return [each for each in list_numbers(self.path) if any((self.path / str(each)).iterdir())]

    def delete(self) -> None:
        """Delete the versions that were set aside; the notice stays, and says so."""
        with self.folder.locked():
            self._empty()
            if (notice := self.find()) is not None:
                self._write_notice(replace(notice, deleted=True))
        self.folder.wakeup.notify()

    def forget(self) -> None:
        """Delete the versions that were set aside, and the notice."""
        with self.folder.locked():
            self._empty()
            (self.path / "notice.json").unlink(missing_ok=True)
        self.folder.wakeup.notify()

    def _empty(self) -> None:
        """Empty the folder. The caller holds the lock. An empty folder keeps the highest number in use, also if this process is killed."""
        numbers = list_numbers(self.path)
        for version in numbers[:-1]:
            shutil.rmtree(self.path / str(version), ignore_errors=True)
        for version in numbers[-1:]:
            for path in (self.path / str(version)).iterdir():
                path.unlink(missing_ok=True)
            sync_folder(self.path / str(version))
            sync_folder(self.path)

    def _write_notice(self, notice: SetAsideRecord) -> None:
        replace_file(self.path / "notice.json", json.dumps(asdict(notice)).encode(), durable=True)

    def _replace_live(self, foreign: Collection[int], live: int | None, head: int) -> None:
        """Point LIVE at another version. The caller holds the lock. A version that was held back until an offset of another log is not held any longer."""
        try:
            before = self.folder.live()
        except CorruptSnapshot:
            return
        if before is None:
            return
        previous = 0 if before.previous in foreign else before.previous
        if before.version not in foreign:
            self.folder.set_live(
                replace(before, previous=previous, held_until=min(before.held_until, head)), durable=True
            )
        elif live is not None:
            self.folder.set_live(LiveVersion(live, previous=previous if previous != live else 0), durable=True)
        else:
            (self.folder.path / "LIVE").unlink(missing_ok=True)
