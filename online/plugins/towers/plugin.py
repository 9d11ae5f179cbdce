"""Towers: neural networks that are trained on the stream, by one process or by several."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class TowersPlugin(Plugin):
    """The hooks of towers."""

    name = "towers"
    uses = ("export",)  # whose graph of a tower is here

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import classifier

        return (
            classifier(
                "tower",
                "online.plugins.towers.tower:Tower",
                options="online.plugins.towers.options",
                options_can_load_code=True,
                adapts=True,
                has_parts=True,
                graph="online.plugins.towers.graph:build",
            ),
        )


PLUGIN = TowersPlugin()
