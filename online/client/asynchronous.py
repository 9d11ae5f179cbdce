"""The client for asyncio."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from online.client.base import BaseClient, EventParser, read_failure, read_response, request_arguments
from online.client.operations import HttpRequest, HttpResponse, Operation, Operations, Pause, parse_content
from online.client.types import Json

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
T = TypeVar("T")


def run_async(
    operation: Callable[Concatenate[Operations, P], Operation[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[object, object, T]]:
    """Return the method of AsyncClient that runs an operation."""

    @wraps(operation)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(operation(self._operations, *args, **kwargs))

    return method


class AsyncClient(BaseClient["httpx.AsyncClient"]):
    """A client for one model of one service, for asyncio.

    >>> async with AsyncClient("http://127.0.0.1:8000", "chat") as bot:
    ...     answer = await bot.predict(["When are you open?"])
    """

    predict = run_async(Operations.predict)
    reward = run_async(Operations.reward)
    teach = run_async(Operations.teach)
    label = run_async(Operations.label)
    feedback = run_async(Operations.feedback)
    merge = run_async(Operations.merge)
    feedback_status = run_async(Operations.feedback_status)
    retract = run_async(Operations.retract)
    erase = run_async(Operations.erase)
    erasure = run_async(Operations.erasure)
    wait_until_learned = run_async(Operations.wait_until_learned)
    status = run_async(Operations.status)
    versions = run_async(Operations.versions)
    export = run_async(Operations.export)
    export_manifest = run_async(Operations.export_manifest)
    delta = run_async(Operations.delta)
    roll_back = run_async(Operations.roll_back)
    replies = run_async(Operations.replies)
    add_reply = run_async(Operations.add_reply)
    retire_reply = run_async(Operations.retire_reply)
    classes = run_async(Operations.classes)
    retire_class = run_async(Operations.retire_class)
    restore_class = run_async(Operations.restore_class)

    async def events(self, timeout_s: float | None = None) -> AsyncIterator[tuple[str, Json]]:
        """(name, data) of each event, until none has happened for timeout_s seconds."""
        import httpx

        parser = EventParser(timeout_s)
        with suppress(httpx.ReadTimeout):
            async with self._http.stream(**self._event_stream(timeout_s)) as response:
                if response.is_error:
                    await response.aread()
                    parse_content(read_response(response))
                async for line in response.aiter_lines():
                    if event := parser.parse(line):
                        yield event
                    if parser.is_over:
                        return

    async def _run(self, operation: Operation[T]) -> T:
        step = next(operation)
        while True:
            try:
                step = operation.send(await self._perform(step))
            except StopIteration as end:
                result: T = end.value
                return result

    async def _perform(self, step: HttpRequest | Pause) -> HttpResponse:
        import httpx

        if isinstance(step, Pause):
            import asyncio  # loaded already where this runs; importing the client stays fast for everyone else

            await asyncio.sleep(step.seconds)
            return HttpResponse()
        try:
            return read_response(await self._http.request(**request_arguments(step)))
        except httpx.TransportError as error:
            return read_failure(error)

    def _open(self, arguments: dict[str, Any]) -> "httpx.AsyncClient":
        import httpx

        return httpx.AsyncClient(**arguments)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
