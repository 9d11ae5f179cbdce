"""A router: it sends each question to one of several language models, and learns from every thumb which one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from online.api.routes import Router
    from online.models.kinds import KindSpec
    from online.plugins.router.metrics import RouteMetrics
    from online.serving.model_runtime import ModelRuntime
    from online.serving.parts import ModelPart
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class RouterPlugin(Plugin):
    """The hooks of the router."""

    name = "router"
    requires = ("openai",)  # whose requests its routes answer

    def metrics(self) -> "type[RouteMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.router.metrics import RouteMetrics

        return RouteMetrics

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online.plugins.router.added_routes import ROUTER_TABLES

        return (ROUTER_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> Mapping[str, int]:
        """Return nothing: the texts have gone with the predictions, in `forget_records`."""
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete what was answered to these predictions."""
        from online.plugins.router.answer_texts import delete_answer_texts

        delete_answer_texts(connection, ids)

    def forget_words(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Blank what was answered to these questions, and the questions as the router was asked them."""
        from online.plugins.router.answer_texts import blank_answers

        blank_answers(connection, ids)

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes of the API."""
        from online.plugins.router.api import ROUTERS

        return ROUTERS

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import KindSpec
        from online.plugins.router.options import UNLEARNED

        return (
            KindSpec(
                "router",
                "online.plugins.router.model:RouterModel",
                "routing",
                inputs=("text",),
                is_exact=True,
                can_hash_texts=True,
                encoder="online.plugins.router.inputs:RouterEncoder",
                unlearned_options=UNLEARNED,
            ),
        )

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelPart | None":
        """Return the routes of a model that has any, or what a model without a reply falls back to."""
        from online.plugins.router.parts import build_part

        return build_part(model, runtime)


PLUGIN = RouterPlugin()
