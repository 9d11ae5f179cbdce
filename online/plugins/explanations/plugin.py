"""Explanations of replies: what a score consists of, and the rated questions nearby."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router


class ExplanationsPlugin(Plugin):
    """The hooks of explanations."""

    name = "explanations"

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.explanations.routes import router

        return (router,)


PLUGIN = ExplanationsPlugin()
