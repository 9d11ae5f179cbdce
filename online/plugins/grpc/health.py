"""The standard gRPC health service, grpc.health.v1.Health.

"" and the name of a service stand for the whole server; the name of a model stands for that model.
The status is computed for each request, and agrees with /readyz.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from online.serving.runtime import Runtime

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
WATCH_INTERVAL_S = 0.5

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


class HealthService(health_pb2_grpc.HealthServicer):
    """Implements grpc.health.v1.Health; the status of a model is its readiness."""

    def __init__(self, runtime: Runtime, services: Collection[str], stopping: asyncio.Event) -> None:
        self.runtime, self.services, self.stopping = runtime, services, stopping

    async def status(self, name: str) -> int | None:
        """Return None for a name that is neither a service nor a model."""
        if name in self.services:
            return SERVING if await self.runtime.is_ready() else NOT_SERVING
        if name not in self.runtime.models:
            return None
        if self.runtime.stopping or not (await self.runtime.models[name].readiness.check()).is_ready:
            return NOT_SERVING
        return SERVING

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Return the status of the service or of a model. NOT_FOUND for another name."""
        status = await self.status(request.service)
        if status is None:
            text = f"there is no service or model {request.service[:80]!r}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Send the status now, and whenever it changes, until the server stops."""
        sent = None
        while True:
            is_stopping = self.stopping.is_set()
            status = await self.status(request.service)
            if status is None:
                status = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            if status != sent:
                yield health_pb2.HealthCheckResponse(status=status)
            sent = status
            if is_stopping:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL_S):
                    await self.stopping.wait()
