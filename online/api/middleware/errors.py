"""Error responses: one layer around every route and middleware."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ErrorResponses:
    """Answers an exception with the handler of its nearest class, wherever it was raised.

    One layer takes the place of Starlette's two, which cost an eighth of a small model's prediction.
    An exception that only the handler of `Exception` knows is answered, and raised again for the
    server to log. So is one that was raised after the response had begun.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[Any, Any]) -> None:
        """handlers: (request, exception) -> response, by class; one is of `Exception`."""
        self.app, self.handlers = app, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except ClientDisconnect:
            return  # in the middle of its request: nobody is left to answer
        except Exception as error:
            if has_started or scope["type"] != "http":
                raise
            known = next(each for each in type(error).__mro__ if each in self.handlers)
            response = await self.handlers[known](Request(scope, receive, send), error)
            if known is Exception:
                response.headers["Connection"] = "close"  # the server closes it after what is raised here
            await response(scope, receive, send)
            if known is Exception:
                raise
