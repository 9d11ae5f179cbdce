"""The gRPC server: every service in `create_services`, on a port beside HTTP. It starts and stops with the application.

    bytes -> message -> the service's method(message, Call) -> message -> bytes
                          OnlineError -> its status code; any other error -> INTERNAL, with the details in the log

The messages of a stream are answered one after another. When a caller's deadline passes or the caller disconnects, the
method is cancelled; methods that write shield the write. Handlers are generic and not those of the generated stubs, so that
bytes that are not a message get INVALID_ARGUMENT, as every other invalid input.

A plugin adds services with the hook `grpc_services`.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Literal, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from online.api.auth.callers import Callers, Credentials
from online.api.auth.scopes import Access, check_scope
from online.errors import BadInput, OnlineError, PreconditionFailed, SetupError, describe_error
from online.installed import collect_all
from online.plugins.grpc.calls import Call, Method, Service, parse_host
from online.plugins.grpc.health import HealthService
from online.schemas.access.callers import ANONYMOUS, Caller
from online.serving.parts import ServicePart
from online.serving.rates import LARGE_BYTES, RateLimits
from online.serving.runtime import Runtime
from online.telemetry import log_event

log = logging.getLogger("online.grpc")

IDLE_MS = 300_000  # a connection without calls is closed after this time; clients open it again by themselves
MAX_METADATA_BYTES = 32_768  # of a call, as of HTTP's headers; beyond it RESOURCE_EXHAUSTED
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
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler = Callable[[bytes, Context], Coroutine[object, object, bytes]]


def create_services(runtime: Runtime) -> list[Service]:
    """Return the services of every plugin."""
    return collect_all("grpc_services", runtime)


def list_rpcs() -> dict[str, Access]:
    """Return what each method of every service needs, by SERVICE/METHOD; no runtime is needed to describe them."""
    services = create_services(cast(Runtime, None))
    return {rpc: access for service in services for rpc, access in service.list_access().items()}


class GrpcServer(ServicePart):
    """Runs the gRPC server beside HTTP."""

    def __init__(self, runtime: Runtime, callers: Callers, rates: RateLimits, port: int) -> None:
        self.runtime, self.callers, self.rates, self.port = runtime, callers, rates, port
        self.server: grpc.aio.Server | None = None
        self.stopping = asyncio.Event()

    async def start(self) -> None:
        """Raise SetupError where the port is not free."""
        settings = self.runtime.settings
        server = grpc.aio.server(options=self._options(), maximum_concurrent_rpcs=settings.grpc_max_calls)
        services = create_services(self.runtime)
        for service in services:
            server.add_generic_rpc_handlers((self._service_handler(service),))
        names = [health.SERVICE_NAME, *(service.descriptor.full_name for service in services)]
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(self.runtime, ["", *names], self.stopping), server)
        reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            self.port = self._add_port(server, f"{host}:{self.port}")
        except RuntimeError:
            raise SetupError(
                f"cannot listen on {settings.host}:{self.port} for gRPC; choose another with --grpc-port"
            ) from None
        await server.start()
        self.server = server
        log_event(log, "listening", address=f"{host}:{self.port}")

    def _add_port(self, server: grpc.aio.Server, address: str) -> int:
        """Add the port of the server. Raises RuntimeError where the port is not free."""
        certificate, key = self.runtime.settings.tls_certificate, self.runtime.settings.tls_key
        if certificate is None or key is None:
            return server.add_insecure_port(address)
        pair = (key.read_bytes(), certificate.read_bytes())
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))

    def _options(self) -> list[tuple[str, int]]:
        settings = self.runtime.settings
        return [
            ("grpc.max_receive_message_length", settings.grpc_max_message_bytes),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
            # without it a port in use is an error, instead of a share of the other service's calls
            ("grpc.so_reuseport", 0),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            ("grpc.max_connection_idle_ms", IDLE_MS),
            ("grpc.server_handshake_timeout_ms", math.ceil(1_000 * settings.request_read_timeout_s)),
        ]

    async def close(self) -> None:
        """Accept no new calls; open ones finish, or end with UNAVAILABLE. Streams end after the current message."""
        if self.server is not None:
            self.stopping.set()
            await self.server.stop(DRAIN_S)

    def _service_handler(self, service: Service) -> grpc.GenericRpcHandler:
        handlers = {method.name: self._method_handler(service, method) for method in service.descriptor.methods}
        return grpc.method_handlers_generic_handler(service.descriptor.full_name, handlers)

    def _method_handler(self, service: Service, descriptor: MethodDescriptor) -> "grpc.RpcMethodHandler[bytes, bytes]":
        access = service.access_of(descriptor.name)
        handler = self._message_handler(descriptor, service.methods[descriptor.name], access)
        if descriptor.client_streaming:
            return grpc.stream_stream_rpc_method_handler(self._stream_handler(handler))
        return grpc.unary_unary_rpc_method_handler(handler)

    def _stream_handler(self, handler: Handler) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]:
        async def handle_stream(bodies: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            stopping = asyncio.ensure_future(self.stopping.wait())
            try:
                while (body := await next_message(bodies, stopping)) is not None:
                    yield await handler(body, context)
            finally:
                stopping.cancel()

        return handle_stream

    def _message_handler(self, descriptor: MethodDescriptor, method: Method, access: Access) -> Handler:
        kind: type[Message] = GetMessageClass(descriptor.input_type)
        name = f"{descriptor.containing_service.full_name}/{descriptor.name}"

        async def handle_message(body: bytes, context: Context) -> bytes:
            call = Call(ANONYMOUS, read_metadata(context), context.time_remaining())
            try:
                with self.runtime.tracer.request(name, call.metadata):
                    call.caller = await self._find_caller(call.metadata, context.peer(), len(body))
                    message = parse_message(kind, body)
                    check_scope(call.caller, access, model_in(message))
                    answer = await method(message, call)
            except OnlineError as error:
                self.runtime.metrics.refused.labels(str(error.status)).inc()
                await context.abort(status_code_of(error), truncate(str(error)))
            except Exception as error:  # the caller gets no internal details
                self.runtime.metrics.refused.labels("500").inc()
                log.error("a call failed", exc_info=error)
                await context.abort(grpc.StatusCode.INTERNAL, describe_error(error)[1])
            context.set_trailing_metadata(tuple(call.trailing.items()))
            return answer.SerializeToString()

        return handle_message

    async def _find_caller(self, metadata: Mapping[str, str], peer: str, bytes: int) -> Caller:
        """bytes: of the message. Raises QuotaExceeded."""
        caller = await self.callers.find(Credentials(metadata, parse_host(peer)))
        self.rates.check(caller, requests=1, bytes=bytes)
        if bytes > LARGE_BYTES:
            await asyncio.sleep(self.rates.take_turn(caller, bytes))
        return caller


async def next_message(bodies: AsyncIterator[bytes], stopping: "asyncio.Task[Literal[True]]") -> bytes | None:
    """Return the next message of a stream; None at its end, or when the server stops first."""
    message = asyncio.ensure_future(anext(bodies, None))
    try:
        await asyncio.wait((message, stopping), return_when=asyncio.FIRST_COMPLETED)
        return message.result() if message.done() else None
    finally:
        message.cancel()


def parse_message(kind: type[Message], body: bytes) -> object:
    """Parse a message. Raises BadInput."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise BadInput(f"the bytes are not a {kind.DESCRIPTOR.full_name}") from None


def read_metadata(context: Context) -> dict[str, str]:
    """Return the metadata that is text."""
    sent = context.invocation_metadata() or ()
    return {name: value for name, value in sent if isinstance(value, str)}


def model_in(message: Any) -> str | None:
    """Return the name of the model that a request of any service is about; None for one that names none."""
    names = message.DESCRIPTOR.fields_by_name
    if "model_spec" in names:
        return str(message.model_spec.name)
    if "tasks" in names:
        return str(message.tasks[0].model_spec.name) if message.tasks else None
    name = next((getattr(message, field) for field in ("model", "model_name", "name") if field in names), "")
    return str(name) or None


def status_code_of(error: OnlineError) -> grpc.StatusCode:
    """Return the status code of an error."""
    if isinstance(error, PreconditionFailed):
        return grpc.StatusCode.FAILED_PRECONDITION
    return CODES.get(error.status, grpc.StatusCode.INTERNAL)


def truncate(text: str) -> str:
    """Return an error's text, shortened to what fits into a trailer."""
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}...TRUNCATED"
