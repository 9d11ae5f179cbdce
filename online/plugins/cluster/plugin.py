"""Cluster: replicas of one service that share a store, copy each other's versions, and are looked after together."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import FastAPI
    from typer import Typer

    from online.api.routes import Router
    from online.plugins.cluster.fetching import VersionFetcher
    from online.plugins.cluster.kept_versions import KeptVersions
    from online.plugins.cluster.request_forwarding import RequestForwarding
    from online.plugins.cluster.settings import ClusterSettings
    from online.serving.model_runtime import ModelRuntime
    from online.serving.runtime import Runtime
    from online.state.tuned_encoders import FetchEncoder
    from online.state.workspace import Workspace


class ClusterPlugin(Plugin):
    """The hooks of a cluster."""

    name = "cluster"

    def settings(self) -> "type[ClusterSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.cluster.settings import ClusterSettings

        return ClusterSettings

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.cluster import routes, status_route

        return routes.router, status_route.router

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.cluster.doctor.command import doctor
        from online.plugins.cluster.status_command import status

        app.command()(status)
        app.command()(doctor)

    def api_part(self, app: "FastAPI") -> "RequestForwarding":
        """Create what sends requests to other replicas, and trust those that they send."""
        from online.plugins.cluster.request_forwarding import ForwardedRequests, RequestForwarding

        app.add_middleware(ForwardedRequests, keys=app.state.runtime.workspace.keys)
        return RequestForwarding(app)

    def encoder_source(self, workspace: "Workspace") -> "FetchEncoder | None":
        """Return what fetches tuned encoders from other replicas, where the store may have any."""
        if not workspace.store.is_shared:
            return None
        from online.plugins.cluster.encoders import fetch_encoder

        return partial(fetch_encoder, workspace)

    def service_part(self, runtime: "Runtime") -> "VersionFetcher | None":
        """Create what brings versions from other replicas, in the process that follows them."""
        if not runtime.is_primary or not runtime.workspace.store.is_shared:
            return None
        from online.plugins.cluster.fetching import VersionFetcher

        return VersionFetcher(runtime)

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "KeptVersions":
        """Create what finds a model's versions and their files for other replicas."""
        from online.plugins.cluster.kept_versions import KeptVersions

        return KeptVersions(model.snapshots.folder)


PLUGIN = ClusterPlugin()
