"""The exports of one model that the service keeps: versions from the disk, or computed, one at a time of all processes, in a thread."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from online.errors import NotFound
from online.plugins.export.deltas import VersionDeltas
from online.plugins.export.encoder_files import EncoderFiles
from online.plugins.export.exporter import check_kind, export
from online.plugins.export.files import ExportFolder, KeptExport
from online.plugins.export.formats import ExportFormat
from online.plugins.export.learner_files import LearnerFiles
from online.plugins.export.restoring import restore
from online.serving.disk_space import DiskSpace
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart
from online.serving.runtime import Runtime
from online.serving.turns import Turns
from online.serving.version_loader import VersionLoader
from online.state.workspace import Workspace


@dataclass(slots=True)
class VersionExports:
    """Exports of one model. loader: of its versions. disk: refuses to write where there is too little room."""

    workspace: Workspace
    loader: VersionLoader
    disk: DiskSpace
    turns: Turns = field(default_factory=partial(Turns, "exports"))

    async def find(self, version: int, form: ExportFormat) -> KeptExport:
        """Return the export of a version. Raises NotFound, CorruptSnapshot, Conflict, CannotExport, Overloaded or InsufficientStorage."""
        check_kind(self.loader.kind, self.loader.config.options)
        kept = await asyncio.to_thread(self._find_kept, version, form)
        if kept is not None:
            return kept
        return await self.turns.run(partial(asyncio.to_thread, self._find_or_export, version, form))

    @property
    def folder(self) -> ExportFolder:
        """The folder of the model's exports."""
        snapshots = self.loader.snapshots
        return ExportFolder(self.workspace.exports(snapshots.model), snapshots)

    def _find_kept(self, version: int, form: ExportFormat) -> KeptExport | None:
        return self.folder.find(self.loader.snapshots.folder.manifest(version), form)

    def _find_or_export(self, version: int, form: ExportFormat) -> KeptExport:
        """Slow: a model of texts takes seconds."""
        with self.folder.locked():
            if kept := self._find_kept(version, form):
                return kept
            self.disk.check_room()
            manifest = self.loader.snapshots.folder.manifest(version)
            self.folder.keep(manifest, form, export(restore(self.workspace, self.loader, version), form))
            kept = self.folder.find(manifest, form)
        if kept is None:
            raise NotFound(f"version {version} of {manifest.model} was deleted while it was exported")
        return kept


class ModelExports(ModelPart):
    """Creates the exports of one model, and keeps the last ones."""

    def __init__(self, model: ModelRuntime, runtime: Runtime) -> None:
        workspace, loader = runtime.workspace, model.live.loader
        self.versions = VersionExports(workspace, loader, runtime.disk)
        self.learner_files = LearnerFiles(workspace, loader)
        self.deltas = VersionDeltas()
        self.encoder_files = EncoderFiles(workspace, model.spec.name)

    def forget_log(self) -> None:
        """Forget files that erased events have entered."""
        self.learner_files.forget()
        self.deltas.forget()


def exports_of(model: ModelRuntime) -> ModelExports:
    """Return this plugin's part of a model."""
    return model.parts.find(ModelExports)
