"""gRPC: grpc.health.v1.Health. What it says is looked up when it is asked, so it is what /readyz says.

"" and the name of a service stand for the whole server, the name of a model for that one alone.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from online.serving.inference import is_ready
from online.serving.parts import Parts

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
WATCHED_EVERY_S = 0.5

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


class Health(health_pb2_grpc.HealthServicer):
    def __init__(self, parts: Parts, services: Collection[str], stopping: asyncio.Event) -> None:
        self.parts, self.services, self.stopping = parts, services, stopping

    def status(self, name: str) -> int | None:
        """None for what is neither a service nor a model."""
        if name in self.services:
            return SERVING if is_ready(self.parts) else NOT_SERVING
        if name not in self.parts.models:
            return None
        return SERVING if self.parts.models[name].ready and not self.parts.stopping else NOT_SERVING

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        status = self.status(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {request.service[:80]!r} here")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Tells it, and tells it again when it changes, until the server stops."""
        told = None
        while True:
            status = self.status(request.service)
            if status is None:
                status = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            if status != told:
                yield health_pb2.HealthCheckResponse(status=status)
            told = status
            if self.stopping.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), WATCHED_EVERY_S)
