"""Monitoring: the verdict on a model, its prequential curve, its drift, and the differences between its versions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router
    from online.plugins.monitoring.model_monitoring import ModelMonitoring
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime


class MonitoringPlugin(Plugin):
    name = "monitoring"

    def routers(self) -> "Iterable[Router]":
        from online.plugins.monitoring.routes import router

        return (router,)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelMonitoring":
        from online.plugins.monitoring.model_monitoring import ModelMonitoring

        return ModelMonitoring(model, runtime)


PLUGIN = MonitoringPlugin()
