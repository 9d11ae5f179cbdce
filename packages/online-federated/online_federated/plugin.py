"""Cohorts: clients whose sums are added by secure aggregation, and become one contribution of the log."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames
    from online_federated.cohorts import Cohorts
    from online_federated.retention import CohortRetention
    from online_federated.settings import CohortSettings


class FederatedPlugin(Plugin):
    """The hooks of cohorts."""

    name = "federated"

    def settings(self) -> "type[CohortSettings]":
        """Return the class of this plugin's settings."""
        from online_federated.settings import CohortSettings

        return CohortSettings

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online_federated.tables import COHORT_TABLES

        return (COHORT_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Let the cohorts fail of which an erased user is a member, which deletes what was sent."""
        from online_federated.membership import end_cohorts_of

        ended = 0 if erased.user is None else end_cohorts_of(connection, erased.model, erased.user)
        return {"cohorts": ended} if ended else {}

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online_federated.routes import router

        return (router,)

    def service_part(self, runtime: "Runtime") -> "CohortRetention":
        """Create this plugin's part of the service."""
        from online_federated.retention import CohortRetention

        return CohortRetention(runtime)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "Cohorts":
        """Create the cohorts of a model."""
        import os
        from datetime import UTC, datetime
        from functools import partial

        from online_federated.cohorts import Cohorts

        return Cohorts(model.feedback, partial(datetime.now, UTC), os.urandom)


PLUGIN = FederatedPlugin()
