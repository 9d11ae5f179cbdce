"""OpenAI's chat completions and responses, which chat pages, agents and SDKs send."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import Request
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class OpenaiPlugin(Plugin):
    """The hooks of OpenAI's chat completions and responses."""

    name = "openai"

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's table, with its migrations."""
        from online.plugins.openai.messages import MESSAGE_TABLES

        return (MESSAGE_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> Mapping[str, int]:
        """Return nothing: the messages have gone with the predictions, in `forget_records`."""
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete the messages that show these predictions."""
        from online.plugins.openai.messages import delete_messages

        delete_messages(connection, ids)

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.openai import chat_completions, responses

        return chat_completions.router, responses.router

    def unmatched_error(self, request: "Request") -> "Exception | None":
        from online.plugins.openai.paths import is_meant_for_openai, unserved

        return unserved(request) if is_meant_for_openai(request) else None

    def error_body(self, request: "Request", status: int, text: str, error: Exception) -> "Mapping[str, object] | None":
        from online.plugins.openai.paths import describe_error

        return describe_error(request, status, text, error)


PLUGIN = OpenaiPlugin()
