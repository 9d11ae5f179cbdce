"""Traces: OpenTelemetry spans from a request to the version that has learned its feedback, sent with OTLP.

They are off unless the variables of OpenTelemetry name a collector; then they need the extra `traces`.
"""

import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI

    from online.telemetry import Tracer

log = logging.getLogger("online.traces")

ENDPOINTS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


class TracesPlugin(Plugin):
    """The hooks of traces."""

    name = "traces"

    def tracer(self, state: "Path", process: str) -> "Tracer | None":
        """Create what records and sends the spans of a process, where they are wanted."""
        if not are_wanted(os.environ):
            return None
        try:
            from online.plugins.traces.learning import LearningTracer
            from online.plugins.traces.provider import create_provider
            from online.plugins.traces.serving import ServingTracer
        except ImportError as error:
            log.warning("traces are not sent, because %s is missing: pip install 'online[traces]'", error.name)
            return None
        provider = create_provider(process)
        return LearningTracer(provider, state) if process == "learner" else ServingTracer(provider, state)

    def api_part(self, app: "FastAPI") -> None:
        """Let a tracer see the requests, where there is one."""
        runtime = app.state.runtime
        if runtime.tracer.is_on:
            from online.plugins.traces.requests import TracedRequests

            app.state.outermost.append(
                partial(TracedRequests, tracer=runtime.tracer, routes=app.state.routes, settings=runtime.settings)
            )


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the variables of OpenTelemetry ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").lower()
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in ENDPOINTS))


PLUGIN = TracesPlugin()
