"""Cohorts: clients whose sums are added by secure aggregation, and become one contribution of the log."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.plugins.cohorts.cohorts import Cohorts
    from online.plugins.cohorts.retention import CohortRetention
    from online.plugins.cohorts.settings import CohortSettings
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class CohortsPlugin(Plugin):
    """The hooks of cohorts."""

    name = "cohorts"

    def settings(self) -> "type[CohortSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.cohorts.settings import CohortSettings

        return CohortSettings

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online.plugins.cohorts.tables import COHORT_TABLES

        return (COHORT_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Let the cohorts fail of which an erased user is a member, which deletes what was sent."""
        from online.plugins.cohorts.membership import end_cohorts_of

        ended = 0 if erased.user is None else end_cohorts_of(connection, erased.model, erased.user)
        return {"cohorts": ended} if ended else {}

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.cohorts.routes import router

        return (router,)

    def service_part(self, runtime: "Runtime") -> "CohortRetention":
        """Create this plugin's part of the service."""
        from online.plugins.cohorts.retention import CohortRetention

        return CohortRetention(runtime)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "Cohorts":
        """Create the cohorts of a model."""
        import os
        from datetime import UTC, datetime
        from functools import partial

        from online.plugins.cohorts.cohorts import Cohorts

        return Cohorts(model.feedback, partial(datetime.now, UTC), os.urandom)


PLUGIN = CohortsPlugin()
