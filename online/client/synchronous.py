"""The client that blocks until an answer arrives."""

import time
from collections.abc import Callable, Iterator
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


def run_blocking(
    operation: Callable[Concatenate[Operations, P], Operation[T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return the method of Client that runs an operation."""

    @wraps(operation)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self._operations, *args, **kwargs))

    return method


class Client(BaseClient["httpx.Client"]):
    """A client for one model of one service.

    >>> with Client("http://127.0.0.1:8000", "chat") as bot:
    ...     answer = bot.predict(["When are you open?"])
    ...     bot.reward(answer["prediction_ids"][0], 1.0)
    """

    predict = run_blocking(Operations.predict)
    reward = run_blocking(Operations.reward)
    teach = run_blocking(Operations.teach)
    label = run_blocking(Operations.label)
    feedback = run_blocking(Operations.feedback)
    merge = run_blocking(Operations.merge)
    feedback_status = run_blocking(Operations.feedback_status)
    retract = run_blocking(Operations.retract)
    erase = run_blocking(Operations.erase)
    erasure = run_blocking(Operations.erasure)
    wait_until_learned = run_blocking(Operations.wait_until_learned)
    status = run_blocking(Operations.status)
    versions = run_blocking(Operations.versions)
    export = run_blocking(Operations.export)
    export_manifest = run_blocking(Operations.export_manifest)
    delta = run_blocking(Operations.delta)
    roll_back = run_blocking(Operations.roll_back)
    replies = run_blocking(Operations.replies)
    add_reply = run_blocking(Operations.add_reply)
    retire_reply = run_blocking(Operations.retire_reply)
    classes = run_blocking(Operations.classes)
    retire_class = run_blocking(Operations.retire_class)
    restore_class = run_blocking(Operations.restore_class)

    def events(self, timeout_s: float | None = None) -> Iterator[tuple[str, Json]]:
        """(name, data) of each event, until none has happened for timeout_s seconds."""
        import httpx

        parser = EventParser(timeout_s)
        with suppress(httpx.ReadTimeout), self._http.stream(**self._event_stream(timeout_s)) as response:
            if response.is_error:
                response.read()
                parse_content(read_response(response))
            for line in response.iter_lines():
                if event := parser.parse(line):
                    yield event
                if parser.is_over:
                    return

    def _run(self, operation: Operation[T]) -> T:
        step = next(operation)
        while True:
            try:
                step = operation.send(self._perform(step))
            except StopIteration as end:
                result: T = end.value
                return result

    def _perform(self, step: HttpRequest | Pause) -> HttpResponse:
        import httpx

        if isinstance(step, Pause):  # nothing announces that an absent service is back: try again after a while
            time.sleep(step.seconds)
            return HttpResponse()
        try:
            return read_response(self._http.request(**request_arguments(step)))
        except httpx.TransportError as error:
            return read_failure(error)

    def _open(self, arguments: dict[str, Any]) -> "httpx.Client":
        import httpx

        return httpx.Client(**arguments)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
