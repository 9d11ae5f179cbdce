"""Moderation: the inbox, where curators decide about feedback of callers that are not trusted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.plugins.moderation.model_moderation import ModelModeration
    from online.plugins.moderation.review import Moderation
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class ModerationPlugin(Plugin):
    """The hooks of moderation."""

    name = "moderation"

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online.plugins.moderation.inbox.tables import INBOX_TABLES

        return (INBOX_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Delete the name of an erased user who was a curator."""
        from online.plugins.moderation.inbox.tables import forget_curator

        if erased.user is not None:
            forget_curator(connection, erased.model, erased.user)
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete what the inbox keeps of feedback and predictions."""
        from online.plugins.moderation.inbox.tables import forget_items

        forget_items(connection, model, ids)

    def feedback_review(self) -> "Moderation":
        """Return what notes the feedback that curators look at."""
        from online.plugins.moderation.review import Moderation

        return Moderation()

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.moderation.inbox import routes, unanswered_routes

        return routes.router, unanswered_routes.router

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelModeration":
        """Create this plugin's part of a model."""
        from online.plugins.moderation.model_moderation import ModelModeration

        return ModelModeration(model)


PLUGIN = ModerationPlugin()
