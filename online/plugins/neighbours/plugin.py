"""Nearest neighbours: a kind that answers from its examples themselves."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class NeighboursPlugin(Plugin):
    """The hooks of nearest neighbours."""

    name = "neighbours"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import classifier

        return (
            classifier(
                "knn",
                "online.plugins.neighbours.knn:Knn",
                is_exact=True,
                adapts=True,
            ),
        )


PLUGIN = NeighboursPlugin()
