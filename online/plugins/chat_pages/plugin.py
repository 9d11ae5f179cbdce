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
    name = "chat_pages"

    def settings(self) -> "type[ChatPageSettings]":
        from online.plugins.chat_pages.settings import ChatPageSettings

        return ChatPageSettings

    def routers(self) -> "Iterable[Router]":
        from online.plugins.chat_pages.routes import router

        return (router,)

    def api_part(self, app: "FastAPI") -> "ChatPages":
        from online.plugins.chat_pages.routes import ChatPages

        return ChatPages(app.state.runtime)


PLUGIN = ChatPagesPlugin()
