"""Set versions aside that were learned from another log than the present one.

    snapshots/<model>/12/  --rename-->  snapshots/<model>/set-aside/12/
                                        snapshots/<model>/set-aside/notice.json   when, why, which

They are moved and not deleted, because only an operator knows which log is the right one. Versions
that are set aside are never served, and nothing is learned from them. Their numbers are not used again.
"""

import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from online.errors import CorruptSnapshot
from online.io.atomic import replace_file, sync_folder
from online.snapshots.folder import LiveVersion
from online.snapshots.labels import VersionLabels


@dataclass(frozen=True, slots=True)
class SetAside:
    """Which versions were set aside, and why.

    learned_until: the highest offset that they had learned. head: the last offset of the log at that time. labels:
    those that named them, and are dropped. learned_again: whether a version has learned the log until `head`.
    """

    at: str
    reason: str
    versions: tuple[int, ...]
    learned_until: int
    head: int
    labels: tuple[str, ...] = ()
    learned_again: bool = False

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
        if notice is not None and not notice.learned_again and until >= notice.head:
            self._write_notice(replace(notice, learned_again=True))
            self.wakeup.notify()

    def forget_set_aside(self) -> None:
        """Delete the versions that were set aside, and the notice. An empty folder keeps the highest number in use."""
        numbers = self._numbers(self._aside)
        shutil.rmtree(self._aside, ignore_errors=True)
        if numbers:
            (self._aside / str(numbers[-1])).mkdir(parents=True)
        self.wakeup.notify()

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
