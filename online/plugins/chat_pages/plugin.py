"""Other chat pages whose ratings are learned: Open WebUI, LibreChat, and clients of Langfuse."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import FastAPI
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.plugins.chat_pages.routes import ChatPages
    from online.plugins.chat_pages.settings import ChatPageSettings
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class ChatPagesPlugin(Plugin):
    """The hooks of other chat pages."""

    name = "chat_pages"
    requires = ("openai",)  # whose table says which message shows a prediction

    def settings(self) -> "type[ChatPageSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.chat_pages.settings import ChatPageSettings

        return ChatPageSettings

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's table, with its migrations."""
        from online.plugins.chat_pages.tables import CHAT_PAGE_TABLES

        return (CHAT_PAGE_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> Mapping[str, int]:
        """Return nothing: the table has ids that other pages chose for ratings, and nothing of a user."""
        return {}

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.chat_pages.routes import router

        return (router,)

    def api_part(self, app: "FastAPI") -> "ChatPages":
        """Create this plugin's part of the application."""
        from online.plugins.chat_pages.routes import ChatPages

        return ChatPages(app.state.runtime)


PLUGIN = ChatPagesPlugin()
