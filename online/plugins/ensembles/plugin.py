"""Ensembles: kinds that contain other models, and answer by the best of them or by their votes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class EnsemblesPlugin(Plugin):
    name = "ensembles"

    def kinds(self) -> "Iterable[KindSpec]":
        from online.plugins.ensembles.kinds import KINDS

        return KINDS


PLUGIN = EnsemblesPlugin()
