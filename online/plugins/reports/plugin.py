"""Reports: the replay of a model's log, or of an uploaded one, as a page of HTML with plots."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer

    from online.api.routes import Router
    from online.evaluation.replay.replay_report import WritePage
    from online.installed import ContributedParts
    from online.plugins.reports.making import ReportMaking
    from online.plugins.reports.settings import ReportSettings
    from online.serving.erasure.files import NameSearch
    from online.serving.runtime import Runtime
    from online.snapshots import Snapshots
    from online.state.workspace import Workspace


class ReportsPlugin(Plugin):
    """The hooks of reports."""

    name = "reports"

    def settings(self) -> "type[ReportSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.reports.settings import ReportSettings

        return ReportSettings

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.reports import replay_routes, report_routes

        return report_routes.router, replay_routes.router

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.cli.groups import log_app
        from online.plugins.reports.command import recognise_columns, replay_upload, report

        log_app.command()(report)
        log_app.command("replay", hidden=True)(replay_upload)
        log_app.command("columns", hidden=True)(recognise_columns)

    def service_part(self, runtime: "Runtime") -> "ReportMaking":
        """Create this plugin's part of the service."""
        from online.plugins.reports.making import ReportMaking

        return ReportMaking(runtime)

    def replay_page(self) -> "WritePage":
        """Return the function that writes the page of a replay."""
        from online.plugins.reports.report_page import write_replay_page

        return write_replay_page

    def forget_in_files(
        self, workspace: "Workspace", user: "NameSearch", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Delete what this plugin's files keep of an erased user."""
        from online.plugins.reports.erasing import remove_uploads

        return {"uploads_removed": remove_uploads(workspace, user, parts)}

    def forget_versions(
        self, workspace: "Workspace", snapshots: "Snapshots", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Delete what this plugin keeps of versions that are gone."""
        from online.plugins.reports.erasing import remove_reports

        return {"reports_removed": remove_reports(workspace, snapshots.model, parts)}


PLUGIN = ReportsPlugin()
