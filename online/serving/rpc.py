"""gRPC: one server beside HTTP, for every service in `services`; it starts and stops with the application.

    bytes -> message -> the service's method(message, Call) -> message -> bytes
                          an OnlineError -> its status code; anything else -> INTERNAL, and the log has it

Of a stream each message is answered so, one after another. A caller's deadline, or its leaving, cancels the method: what waits for its turn is dropped. What writes shields itself.

A service of another protocol is a module of its own, its .proto file in protos/, and a line in `services`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from online.errors import BadInput, OnlineError, PreconditionFailed, SetupError
from online.observability import fact
from online.serving.calls import Call, Method, Service
from online.serving.feedback_rpc import Feedback
from online.serving.health_rpc import Health
from online.serving.inference_rpc import Inference
from online.serving.parts import Parts
from online.serving.tensorflow_rpc import Tensorflow

log = logging.getLogger("online.rpc")

DRAIN_S = 10  # open calls get this long to finish
MAX_ERROR_CHARS = 1024
CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}

Context = grpc.aio.ServicerContext[bytes, bytes]
Answering = Callable[[bytes, Context], Coroutine[Any, Any, bytes]]


def services(parts: Parts) -> list[Service]:
    return [*Tensorflow(parts).services(), Inference(parts).service(), Feedback(parts).service()]


class Rpc:
    """Raises SetupError from `start` where it cannot listen."""

    def __init__(self, parts: Parts, port: int) -> None:
        self.parts, self.port = parts, port
        self.server: grpc.aio.Server | None = None
        self.stopping = asyncio.Event()

    async def start(self) -> None:
        server, settings = grpc.aio.server(options=self._options()), self.parts.settings
        known = services(self.parts)
        for service in known:
            server.add_generic_rpc_handlers((self._handlers(service),))
        names = [health.SERVICE_NAME, *(service.descriptor.full_name for service in known)]
        health_pb2_grpc.add_HealthServicer_to_server(Health(self.parts, ["", *names], self.stopping), server)
        reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            self.port = server.add_insecure_port(f"{host}:{self.port}")
        except RuntimeError:
            raise SetupError(
                f"cannot listen on {settings.host}:{self.port} for gRPC; choose another with --grpc-port"
            ) from None
        await server.start()
        self.server = server
        fact(log, "listens", address=f"{host}:{self.port}")

    def _options(self) -> list[tuple[str, int]]:
        most = self.parts.settings.grpc_max_message_bytes
        # a port that another service has is an error, not a share of its calls
        return [("grpc.max_receive_message_length", most), ("grpc.so_reuseport", 0)]

    async def stop(self) -> None:
        """No new calls; open ones finish, or end with UNAVAILABLE. Streams end behind the message that is answered."""
        if self.server is not None:
            self.stopping.set()
            await self.server.stop(DRAIN_S)

    def _handlers(self, service: Service) -> grpc.GenericRpcHandler:
        named = {
            method.name: self._handler(method, service.methods[method.name]) for method in service.descriptor.methods
        }
        return grpc.method_handlers_generic_handler(service.descriptor.full_name, named)

    def _handler(self, described: MethodDescriptor, method: Method) -> "grpc.RpcMethodHandler[bytes, bytes]":
        answering = self._answering(described, method)
        if described.client_streaming:
            return grpc.stream_stream_rpc_method_handler(self._each(answering))
        return grpc.unary_unary_rpc_method_handler(answering)

    def _each(self, answering: Answering) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]:
        async def answered(bodies: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            stopping = asyncio.ensure_future(self.stopping.wait())
            try:
                while (body := await next_of(bodies, stopping)) is not None:
                    yield await answering(body, context)
            finally:
                stopping.cancel()

        return answered

    def _answering(self, described: MethodDescriptor, method: Method) -> Answering:
        kind: type[Message] = GetMessageClass(described.input_type)

        async def answered(body: bytes, context: Context) -> bytes:
            call = call_of(context)
            try:
                answer = await method(read(kind, body), call)
            except OnlineError as error:
                self.parts.metrics.refused.labels(str(error.status)).inc()
                await context.abort(code_of(error), cut(str(error)))
            except Exception as error:  # the caller is told nothing of our insides
                self.parts.metrics.refused.labels("500").inc()
                log.error("a call failed", exc_info=error)
                text = f"something failed inside: {type(error).__name__}; the service's log has the details"
                await context.abort(grpc.StatusCode.INTERNAL, text)
            context.set_trailing_metadata(tuple(call.trailing.items()))
            return answer.SerializeToString()

        return answered


async def next_of(bodies: AsyncIterator[bytes], stopping: "asyncio.Future[Any]") -> bytes | None:
    """The next message of a stream; None at its end, or where the server stops before one comes."""
    coming = asyncio.ensure_future(anext(bodies, None))
    try:
        await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()


def read(kind: type[Message], body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError:
        raise BadInput(f"bytes that are no {kind.DESCRIPTOR.full_name}") from None


def call_of(context: Context) -> Call:
    given = context.invocation_metadata() or ()
    metadata = {name: value for name, value in given if isinstance(value, str)}
    return Call(metadata, context.peer(), context.time_remaining())


def code_of(error: OnlineError) -> grpc.StatusCode:
    if isinstance(error, PreconditionFailed):
        return grpc.StatusCode.FAILED_PRECONDITION
    return CODES.get(error.status, grpc.StatusCode.INTERNAL)


def cut(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}...TRUNCATED"
