"""Devices: each process says on which device it computes each model, and where memory ran out; a route and a command show it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from typer import Typer

    from online.api.routes import Router
    from online.models.devices.observer import Role
    from online.models.devices.probe import Devices
    from online.plugins.devices.device_reports import DeviceReporter
    from online.plugins.devices.metrics import DeviceMetrics
    from online.plugins.devices.reporting import DeviceReporting
    from online.serving.runtime import Runtime


class DevicesPlugin(Plugin):
    """The hooks of devices."""

    name = "devices"

    def metrics(self) -> "type[DeviceMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.devices.metrics import DeviceMetrics

        return DeviceMetrics

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.devices.routes import router

        return (router,)

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.devices.command import devices

        app.command()(devices)

    def device_observer(
        self, state: "Path", process: str, role: "Role", devices: "Devices", caps: "Mapping[str, int]"
    ) -> "DeviceReporter":
        """Return what writes the report of a process."""
        from online.plugins.devices.device_reports import DeviceReporter

        return DeviceReporter(state, process, role, devices, caps)

    def service_part(self, runtime: "Runtime") -> "DeviceReporting":
        """Create this plugin's part of the service."""
        from online.plugins.devices.reporting import DeviceReporting

        return DeviceReporting(runtime)


PLUGIN = DevicesPlugin()
