"""Ensembles: kinds that contain other models, and answer by the best of them or by their votes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class EnsemblesPlugin(Plugin):
    """The hooks of ensembles."""

    name = "ensembles"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.plugins.ensembles.kinds import KINDS

        return KINDS


PLUGIN = EnsemblesPlugin()
