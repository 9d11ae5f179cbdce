"""Usage: questions and ratings over calendar time, and the questions that are asked most."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router


class UsagePlugin(Plugin):
    """The hooks of usage."""

    name = "usage"

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.usage.routes import router

        return (router,)


PLUGIN = UsagePlugin()
