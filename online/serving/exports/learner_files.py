"""The files with which devices go on learning, computed when they are first asked for.

version --> the newest durable one until it --restored with its sums--> model --write_learner_file--> file and sha256

Only durable versions have their sums on the disk. While a model learns there is a new one every two seconds.
"""

import hashlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from online.errors import Conflict, NotFound
from online.models.export.learner_file import LearnerFacts, write_learner_file
from online.serving.exports.restoring import restore
from online.serving.version_loader import VersionLoader
from online.workspace import Workspace

MAX_KEPT = 2  # files in memory: every page asks for that of the live version


@dataclass(frozen=True, slots=True)
class LearnerFile:
    """version: whose sums are in the file."""

    version: int
    data: bytes
    sha256: str


@dataclass(slots=True)
class LearnerFiles:
    """The files of one model. loader: of its versions."""

    workspace: Workspace
    loader: VersionLoader
    kept: OrderedDict[int, LearnerFile] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def load(self, version: int) -> LearnerFile:
        """The file of the newest durable version until this one. Slow: it may read every file of it.

        Raises NotFound, CorruptSnapshot, or Conflict for a version that cannot go on learning elsewhere.
        """
        with self.lock:  # several pages that ask at once wait for one export
            number = self._find_durable(version)
            file = self.kept.get(number) or self._write(number)
            self.kept[number] = file
            self.kept.move_to_end(number)
            while len(self.kept) > MAX_KEPT:
                self.kept.popitem(last=False)
            return file

    def _find_durable(self, version: int) -> int:
        snapshots = self.loader.snapshots
        if snapshots.manifest(version).durable:
            return version
        for number in reversed([each for each in snapshots.versions() if each < version]):
            with suppress(NotFound):  # it was deleted just now
                if snapshots.manifest(number).durable:
                    return number
        raise NotFound(f"{snapshots.model} has no version until {version} whose sums are on the disk yet; try again")

    def _write(self, version: int) -> LearnerFile:
        restored = restore(self.workspace, self.loader, version)
        subject = restored.subject
        facts = LearnerFacts(subject.model, str(version), subject.learned_until)
        try:
            data = write_learner_file(restored.served.model, facts)
        except ValueError as error:
            raise Conflict(f"version {version} of {subject.model} cannot go on learning elsewhere: {error}") from error
        return LearnerFile(version, data, hashlib.sha256(data).hexdigest())
