"""Moderation: feedback of callers that are not trusted is limited, held, and decided by others and by curators."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.plugins.moderation.metrics import ModerationMetrics
    from online.plugins.moderation.model_moderation import ModelModeration
    from online.plugins.moderation.review import Moderation
    from online.plugins.moderation.settings import ModerationSettings
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class ModerationPlugin(Plugin):
    """The hooks of moderation."""

    name = "moderation"

    def settings(self) -> "type[ModerationSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.moderation.settings import ModerationSettings

        return ModerationSettings

    def metrics(self) -> "type[ModerationMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.moderation.metrics import ModerationMetrics

        return ModerationMetrics

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online.plugins.moderation.tables import CALLER_TABLES, INBOX_TABLES

        return INBOX_TABLES, CALLER_TABLES

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Delete the standing of an erased user, and the name where the user was a curator."""
        from online.plugins.moderation.tables import delete_standing_of, forget_curator

        if erased.user is not None:
            delete_standing_of(connection, erased.model, erased.user)
            forget_curator(connection, erased.model, erased.user)
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete what the inbox keeps of feedback and predictions."""
        from online.plugins.moderation.tables import forget_items

        forget_items(connection, model, ids)

    def feedback_review(self) -> "Moderation":
        """Return what decides about feedback in its transaction."""
        from online.plugins.moderation.review import Moderation

        return Moderation()

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.moderation.callers import routes as callers
        from online.plugins.moderation.held import routes as held
        from online.plugins.moderation.inbox import routes as inbox
        from online.plugins.moderation.inbox import unanswered_routes

        return held.router, inbox.router, unanswered_routes.router, callers.router

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelModeration":
        """Create this plugin's part of a model."""
        from online.plugins.moderation.model_moderation import ModelModeration

        return ModelModeration(model, runtime)


PLUGIN = ModerationPlugin()
