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
from online.models import create
from online.models.export.learner_file import LearnerFacts, write_learner_file
from online.serving.version_loader import VersionLoader

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
        loader = self.loader
        loaded = loader.snapshots.load(version, serving_only=False)
        manifest = loaded.manifest
        config = loader.find_config(manifest.recipe, any_encoder=True)
        if config is None:
            raise Conflict(f"version {version} of {manifest.model} was created by another kind or with other options")
        model = create(loader.kind, {**config.options, **loader.source.key_option()})
        model.restore(loaded.parts)
        facts = LearnerFacts(manifest.model, str(version), manifest.learned_until)
        try:
            data = write_learner_file(model, facts)
        except ValueError as error:
            raise Conflict(f"version {version} of {manifest.model} cannot go on learning elsewhere: {error}") from error
        return LearnerFile(version, data, hashlib.sha256(data).hexdigest())
