"""Set versions aside that were learned from another log than the present one.

    snapshots/<model>/12/  --rename-->  snapshots/<model>/set-aside/12/
                                        snapshots/<model>/set-aside/notice.json   when, why, which

They are moved and not deleted, because only an operator knows which log is the right one. Versions
that are set aside are never served, and nothing is learned from them. Their numbers are not used again.
The erasure of a user deletes them, because nobody can say any more who is in them.
"""

import json
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from online.errors import CorruptSnapshot
from online.io.atomic import replace_file, sync_folder
from online.snapshots.folder import ROLLED_BACK, LiveVersion
from online.snapshots.labels import VersionLabels
from online.snapshots.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SetAside:
    """Which versions were set aside, and why.

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
    def parse(cls, data: bytes) -> "SetAside":
        fields = json.loads(data)
        versions, labels = tuple(fields.pop("versions")), tuple(fields.pop("labels"))
        return cls(versions=versions, labels=labels, **fields)


class SetAsideVersions(VersionLabels):
    """Moves versions out of service, and remembers why."""

    def find_set_aside(self) -> SetAside | None:
        """The newest notice; None if nothing is set aside, or an operator has removed the folder."""
        try:
            return SetAside.parse((self._aside / "notice.json").read_bytes())
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def set_aside(self, notice: SetAside, live: int | None) -> SetAside:
        """Move the notice's versions aside, and drop what names them; return the notice with the dropped labels.

        live: the version that becomes live if the live one is among them; None: none does. A process that is
        killed meanwhile leaves versions that are found again. Only the newest `retain` are kept.
        """
        with self._locked():
            foreign = {*notice.versions, *self._numbers(self._aside)}
            labels = tuple(sorted(name for name, each in self.labels().items() if each.version in foreign))
            notice = replace(notice, labels=labels)
            self._aside.mkdir(exist_ok=True)
            self._write_notice(replace(notice, versions=tuple(sorted(foreign))))
            self._replace_live(foreign, live, notice.head)
            (self.folder / ROLLED_BACK).unlink(missing_ok=True)  # its offsets may be those of another log
            for name in labels:
                (self.folder / "labels" / name).unlink(missing_ok=True)
            for version in notice.versions:
                shutil.rmtree(self._aside / str(version), ignore_errors=True)
                with suppress(FileNotFoundError):
                    (self.folder / str(version)).rename(self._aside / str(version))
            sync_folder(self.folder)
        for version in self._numbers(self._aside)[: -self.retain]:
            shutil.rmtree(self._aside / str(version), ignore_errors=True)
        self.wakeup.notify()
        return notice

    def mark_learned_again(self, until: int) -> None:
        """Record that a version has learned until an offset: after the notice's `head` all is as it should be."""
        notice = self.find_set_aside()
        if notice is None or notice.learned_again or until < notice.head:
            return
        with self._locked():
            if (notice := self.find_set_aside()) is not None:
                self._write_notice(replace(notice, learned_again=True))
        self.wakeup.notify()

    def list_set_aside(self) -> list[int]:
        """The versions that were set aside and of which anything is left, oldest first."""
        return [each for each in self._numbers(self._aside) if any((self._aside / str(each)).iterdir())]

    def delete_set_aside(self) -> None:
        """Delete the versions that were set aside; the notice stays, and says so."""
        with self._locked():
            self._empty_set_aside()
            if (notice := self.find_set_aside()) is not None:
                self._write_notice(replace(notice, deleted=True))
        self.wakeup.notify()

    def forget_set_aside(self) -> None:
        """Delete the versions that were set aside, and the notice."""
        with self._locked():
            self._empty_set_aside()
            (self._aside / "notice.json").unlink(missing_ok=True)
        self.wakeup.notify()

    def _empty_set_aside(self) -> None:
        """The lock is held. An empty folder keeps the highest number in use, also if this process is killed."""
        numbers = self._numbers(self._aside)
        for version in numbers[:-1]:
            shutil.rmtree(self._aside / str(version), ignore_errors=True)
        for version in numbers[-1:]:
            for path in (self._aside / str(version)).iterdir():
                path.unlink(missing_ok=True)
            sync_folder(self._aside / str(version))
            sync_folder(self._aside)

    def _write_notice(self, notice: SetAside) -> None:
        replace_file(self._aside / "notice.json", json.dumps(asdict(notice)).encode(), durable=True)

    def _replace_live(self, foreign: Collection[int], live: int | None, head: int) -> None:
        """The lock is held. A version that was held back until an offset of another log is not held any longer."""
        try:
            before = self.live()
        except CorruptSnapshot:
            return
        if before is None:
            return
        previous = 0 if before.previous in foreign else before.previous
        if before.version not in foreign:
            self._set_live(replace(before, previous=previous, held_until=min(before.held_until, head)), durable=True)
        elif live is not None:
            self._set_live(LiveVersion(live, previous=previous if previous != live else 0), durable=True)
        else:
            (self.folder / "LIVE").unlink(missing_ok=True)


def find_foreign(manifests: Sequence[Manifest], head: int, digests: dict[int, str]) -> list[Manifest]:
    """Return the manifests of another log, newest first. digests: of the log at their offsets."""
    learned = [manifest for manifest in manifests if manifest.learned_until]
    foreign = [
        each for each in learned if each.learned_until > head or digests.get(each.learned_until) != each.log_digest
    ]
    return sorted(foreign, key=lambda each: each.version, reverse=True)
