"""Estimators of river and scikit-learn as kinds of models."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class LibrariesPlugin(Plugin):
    """The hooks of libraries."""

    name = "libraries"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.plugins.libraries.kinds import KINDS

        return KINDS


PLUGIN = LibrariesPlugin()
