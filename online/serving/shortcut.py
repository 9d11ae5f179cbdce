"""What is asked most, found by one look into a table: predict of a model's live version.

POST /v1/models/chat:predict --> here --> the route's own function
anything else                --> every middleware and route in turn, which takes longer than an answer of a small model
"""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from online.errors import OnlineError
from online.serving import tensorflow_rest
from online.serving.parts import Parts


class Shortcut:
    """The application, and a way around all that stands before one of its routes."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.parts: Parts = app.state.parts
        self.names = {f"/v1/models/{name}:predict": name for name in self.parts.models}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = self.names.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if name is None:
            await self.app(scope, receive, send)
            return
        scope["app"], scope["path_params"] = self.app, {"model": name}
        request = Request(scope, receive, send)
        try:
            which = await tensorflow_rest.which_of(request)
            response = await tensorflow_rest.predict(request, self.parts.models[name], self.parts, which)
        except OnlineError as error:
            response = await self._refused(OnlineError, request, error)
        except Exception as error:
            response = await self._refused(Exception, request, error)
            await response(scope, receive, send)
            raise  # the server logs it
        await response(scope, receive, send)

    async def _refused(self, kind: type[Exception], request: Request, error: Exception) -> Response:
        answered = self.app.exception_handlers[kind](request, error)
        return answered if isinstance(answered, Response) else await answered
