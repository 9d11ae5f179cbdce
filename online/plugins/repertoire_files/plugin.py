"""Files of replies: the export of a repertoire, and the import of one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router
    from online.plugins.repertoire_files.file_imports import FileImports
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime


class RepertoireFilesPlugin(Plugin):
    """The hooks of files of replies."""

    name = "repertoire_files"

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.repertoire_files.routes import router

        return (router,)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "FileImports":
        """Create this plugin's part of a model."""
        from online.plugins.repertoire_files.file_imports import FileImports

        return FileImports(model.repertoire)


PLUGIN = RepertoireFilesPlugin()
