"""Other chat pages whose ratings are learned: Open WebUI, LibreChat, and clients of Langfuse."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import FastAPI

    from online.api.routes import Router
    from online.plugins.chat_pages.routes import ChatPages
    from online.plugins.chat_pages.settings import ChatPageSettings


class ChatPagesPlugin(Plugin):
    """The hooks of other chat pages."""

    name = "chat_pages"

    def settings(self) -> "type[ChatPageSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.chat_pages.settings import ChatPageSettings

        return ChatPageSettings

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.chat_pages.routes import router

        return (router,)

    def api_part(self, app: "FastAPI") -> "ChatPages":
        """Create this plugin's part of the application."""
        from online.plugins.chat_pages.routes import ChatPages

        return ChatPages(app.state.runtime)


PLUGIN = ChatPagesPlugin()
