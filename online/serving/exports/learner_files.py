"""The files with which devices go on learning: one of each version, computed when it is first asked for.

version --restored with its sums--> model --write_learner_file--> the file and its sha256, kept while the version is asked for
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from online.errors import Conflict
from online.models import create
from online.models.export.learner_file import LearnerFacts, write_learner_file
from online.serving.version_loader import VersionLoader

MAX_KEPT = 2  # files in memory: every page asks for that of the live version


@dataclass(frozen=True, slots=True)
class LearnerFile:
    data: bytes
    sha256: str


@dataclass(slots=True)
class LearnerFiles:
    """The files of one model. loader: of its versions."""

    loader: VersionLoader
    kept: OrderedDict[int, LearnerFile] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def load(self, version: int) -> LearnerFile:
        """Slow: it may read every file of the version.

        Raises NotFound, CorruptSnapshot, or Conflict for a version that cannot go on learning elsewhere.
        """
        with self.lock:  # several pages that ask at once wait for one export
            file = self.kept.get(version) or self._write(version)
            self.kept[version] = file
            self.kept.move_to_end(version)
            while len(self.kept) > MAX_KEPT:
                self.kept.popitem(last=False)
            return file

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
        return LearnerFile(data, hashlib.sha256(data).hexdigest())
