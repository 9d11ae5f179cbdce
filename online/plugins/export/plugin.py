"""Export: versions as files that answer elsewhere, or go on learning there."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer

    from online.api.routes import Router
    from online.installed import ContributedParts
    from online.plugins.export.model_exports import ModelExports
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.snapshots import Snapshots
    from online.state.workspace import Workspace


class ExportPlugin(Plugin):
    """The hooks of exports."""

    name = "export"
    uses = ("regression",)

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.export.routes import deltas, exports, learner_files, text_encoder

        return exports.router, learner_files.router, deltas.router, text_encoder.router

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.export.command import export

        app.command()(export)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelExports":
        """Create this plugin's part of a model."""
        from online.plugins.export.model_exports import ModelExports

        return ModelExports(model, runtime)

    def forget_versions(
        self, workspace: "Workspace", snapshots: "Snapshots", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Delete what this plugin keeps of versions that are gone."""
        from online.plugins.export.files import ExportFolder

        ExportFolder(workspace.exports(snapshots.model), snapshots).remove_gone()
        return {}


PLUGIN = ExportPlugin()
