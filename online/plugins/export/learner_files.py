"""The files with which devices go on learning, computed when they are first asked for.

version --> itself if it is durable, or another one (`LearnerFiles.load`) --restored with its sums--> model --write_learner_file--> file and sha256

Only durable versions have their sums on the disk. While a model learns there is a new one every two seconds. One file is written
at a time, and few requests wait for it (`Turns`).
"""

import asyncio
import hashlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from online.errors import Conflict, CorruptSnapshot, NotFound
from online.plugins.export.learner_file import LearnerFacts, write_learner_file
from online.plugins.export.restoring import restore
from online.serving.turns import Turns
from online.serving.version_loader import VersionLoader
from online.state.workspace import Workspace

LEARNER = "learner"  # the name of the format
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
    turns: Turns = field(default_factory=partial(Turns, "files for learners"))

    async def load(self, version: int) -> LearnerFile:
        """Return the file of this version; where it is not durable, of the newest durable one before it or with the same state.

        Raises NotFound, CorruptSnapshot, Overloaded, or Conflict for a version that cannot go on learning elsewhere.
        """
        number = await asyncio.to_thread(self._find_durable, version)
        if kept := self._find_kept(number):
            return kept
        return await self.turns.run(partial(self._find_or_write, number))

    async def _find_or_write(self, number: int) -> LearnerFile:
        """Return several pages that ask at once wait for one file."""
        if kept := self._find_kept(number):
            return kept
        self.kept[number] = file = await asyncio.to_thread(self._write, number)
        while len(self.kept) > MAX_KEPT:
            self.kept.popitem(last=False)
        return file

    def _find_kept(self, number: int) -> LearnerFile | None:
        if number in self.kept:
            self.kept.move_to_end(number)
        return self.kept.get(number)

    def forget(self) -> None:
        """Drop what is kept: it may hold what a user who was erased has taught."""
        self.kept = OrderedDict()

    def _find_durable(self, version: int) -> int:
        snapshots = self.loader.snapshots
        asked = snapshots.folder.manifest(version)
        if asked.durable:
            return version
        for number in reversed(snapshots.folder.versions()):
            with suppress(NotFound, CorruptSnapshot):  # it was deleted just now, or is damaged
                found = snapshots.folder.manifest(number)
                if found.durable and (number < version or found.state_sha256 == asked.state_sha256):
                    return number
        raise NotFound(f"{snapshots.model} has no version until {version} whose sums are on the disk yet; try again")

    def _write(self, version: int) -> LearnerFile:
        """Slow: it reads every file of the version."""
        restored = restore(self.workspace, self.loader, version)
        subject = restored.subject
        facts = LearnerFacts(subject.model, str(version), subject.learned_until)
        try:
            data = write_learner_file(restored.served.model, facts)
        except ValueError as error:
            raise Conflict(f"version {version} of {subject.model} cannot go on learning elsewhere: {error}") from error
        return LearnerFile(version, data, hashlib.sha256(data).hexdigest())
