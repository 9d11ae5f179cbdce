"""What the plugin contributes."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Page, Plugin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.models.kinds import KindSpec
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class BookmarksPlugin(Plugin):
    name = "bookmarks"

    def settings(self) -> "type[BaseModel]":
        from bookmarks.settings import BookmarkSettings

        return BookmarkSettings

    def kinds(self) -> "Iterable[KindSpec]":
        from online.models.kinds import classifier

        return (classifier("last_label", "bookmarks.last_label:LastLabel"),)

    def tables(self) -> "Iterable[TableGroup]":
        from bookmarks.tables import BOOKMARK_TABLES

        return (BOOKMARK_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        from bookmarks.tables import delete_bookmarks

        return {"bookmarks": delete_bookmarks(connection, erased.model, erased.words)}

    def routers(self) -> "Iterable[Router]":
        from bookmarks.routes import router

        return (router,)

    def pages(self) -> "Iterable[Page]":
        from pathlib import Path

        return (Page("bookmarks", Path(__file__).parent / "page.html"),)


PLUGIN = BookmarksPlugin()
