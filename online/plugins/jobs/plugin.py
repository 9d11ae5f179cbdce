"""Batch prediction: every row of a file answered by one version, by a service or by `online predict`."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer

    from online.api.routes import Router
    from online.installed import ContributedParts
    from online.plugins.jobs.batch_queue import BatchQueue
    from online.plugins.jobs.metrics import JobMetrics
    from online.plugins.jobs.settings import JobSettings
    from online.serving.erasure.files import NameSearch
    from online.serving.runtime import Runtime
    from online.state.workspace import Workspace


class JobsPlugin(Plugin):
    """The hooks of batch prediction jobs."""

    name = "jobs"

    def settings(self) -> "type[JobSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.jobs.settings import JobSettings

        return JobSettings

    def metrics(self) -> "type[JobMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.jobs.metrics import JobMetrics

        return JobMetrics

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.jobs.routes import router

        return (router,)

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.cli.groups import log_app
        from online.plugins.jobs.command import predict, read_rows

        app.command()(predict)
        log_app.command("rows", hidden=True)(read_rows)

    def service_part(self, runtime: "Runtime") -> "BatchQueue":
        """Create this plugin's part of the service."""
        from online.plugins.jobs.batch_queue import BatchQueue

        return BatchQueue(runtime)

    def forget_in_files(
        self, workspace: "Workspace", user: "NameSearch", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Delete what this plugin's files keep of an erased user."""
        from online.plugins.jobs.batch_queue import BatchQueue
        from online.plugins.jobs.erasing import forget_in_jobs

        queues = parts.list(BatchQueue)
        return forget_in_jobs(workspace, user, lambda id: any(id in queue.running for queue in queues))


PLUGIN = JobsPlugin()
