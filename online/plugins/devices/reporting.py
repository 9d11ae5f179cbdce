"""Writes the report of a process that answers, and sets the metrics from the reports of all processes."""

import asyncio
from collections.abc import Iterable

from online.plugins.devices.device_reports import collect_reports
from online.plugins.devices.metrics import DeviceMetrics
from online.serving.parts import ServicePart, Work
from online.serving.runtime import Runtime

REPORT_EVERY_S = 2.0


class DeviceReporting(ServicePart):
    """The plugin's part of a service."""

    def __init__(self, runtime: Runtime) -> None:
        self.observer, self.state, self.models = runtime.observer, runtime.workspace.state, runtime.models
        self.metrics = runtime.metrics.parts.find(DeviceMetrics)

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return the writing of the report."""
        return (self.keep_reporting(),)

    async def keep_reporting(self) -> None:
        """Write the report whenever it says something new, until cancelled."""
        while True:
            await asyncio.to_thread(self.observer.write)
            await asyncio.sleep(REPORT_EVERY_S)

    async def update_metrics(self) -> None:
        """Set the metrics of this plugin."""
        reports = await asyncio.to_thread(collect_reports, self.state)
        self.metrics.count_fallbacks(reports, self.models)
        self.metrics.count_sums(reports)
