"""Alerts: notices conditions that need a person, and sends them to webhooks."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from typer import Typer

    from online.api.routes import Router
    from online.plugins.alerts.alerts import Alerts
    from online.plugins.alerts.metrics import AlertMetrics
    from online.plugins.alerts.settings import AlertSettings
    from online.serving.runtime import Runtime
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames


class AlertsPlugin(Plugin):
    """The hooks of the alerts."""

    name = "alerts"
    requires = ("monitoring",)  # whose verdict it watches

    def settings(self) -> "type[AlertSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.alerts.settings import AlertSettings

        return AlertSettings

    def metrics(self) -> "type[AlertMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.alerts.metrics import AlertMetrics

        return AlertMetrics

    def tables(self) -> "Iterable[TableGroup]":
        """Return this plugin's tables, with their migrations."""
        from online.plugins.alerts.tables import ALERT_TABLES

        return (ALERT_TABLES,)

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Delete what this plugin keeps of an erased user."""
        from online.plugins.alerts.deliveries import forget_alerts

        forget_alerts(connection, erased.model, erased.words)
        return {}

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.alerts.routes import router

        return (router,)

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.alerts.command import commands

        app.add_typer(commands, name="alerts")

    def service_part(self, runtime: "Runtime") -> "Alerts":
        """Create this plugin's part of the service."""
        from online.plugins.alerts.alerts import Alerts

        return Alerts(runtime)


PLUGIN = AlertsPlugin()
