"""Shadow versions: another version answers a copy of the traffic, and feedback judges both."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.plugins.shadow.metrics import ShadowMetrics
    from online.plugins.shadow.shadow import Shadow
    from online.plugins.shadow.tables import ShadowAnswerRow
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class ShadowPlugin(Plugin):
    """The hooks of shadow versions."""

    name = "shadow"

    def metrics(self) -> "type[ShadowMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.shadow.metrics import ShadowMetrics

        return ShadowMetrics

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's table, with its migrations."""
        from online.plugins.shadow.tables import SHADOW_TABLES

        return (SHADOW_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> Mapping[str, int]:
        """Return nothing: the answers have gone with the predictions, in `forget_records`."""
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete the shadow's answers beside these predictions."""
        from online.plugins.shadow.tables import delete_shadow_answers

        delete_shadow_answers(connection, ids)

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's route."""
        from online.plugins.shadow.routes import router

        return (router,)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "Shadow":
        """Create what answers for the shadow version of one model."""
        from online.plugins.shadow.metrics import ShadowMetrics
        from online.plugins.shadow.shadow import Shadow
        from online.plugins.shadow.tables import add_shadow_answers

        dropped = runtime.metrics.parts.find(ShadowMetrics).dropped.labels(model.spec.name)

        async def write(rows: "Sequence[ShadowAnswerRow]") -> None:
            await model.transactions.write(lambda connection: add_shadow_answers(connection, rows))

        return Shadow(model.live, write, dropped)


PLUGIN = ShadowPlugin()
