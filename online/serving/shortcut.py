"""What is asked most, found by one look into a table: predict of a model's live version, and feedback.

POST /v1/models/chat:predict  --> here --> the route's own function
POST /v1/models/chat:feedback
anything else                 --> every middleware and route in turn, which takes longer than an answer of a small model
"""

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from online.errors import OnlineError
from online.serving import api, tensorflow_rest
from online.serving.parts import ModelParts, Parts

Way = Callable[[Request], Awaitable[Response]]


class Shortcut:
    """The application, and a way around all that stands before two of its routes."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        parts: Parts = app.state.parts
        self.ways: dict[str, tuple[str, Way]] = {}
        for name, model in parts.models.items():
            self.ways[f"/v1/models/{name}:predict"] = name, partial(predict, model=model, parts=parts)
            self.ways[f"/v1/models/{name}:feedback"] = name, partial(api.feedback, model=model, parts=parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.ways.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        name, way = found
        scope["app"], scope["path_params"] = self.app, {"model": name}
        request = Request(scope, receive, send)
        try:
            response = await way(request)
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


async def predict(request: Request, model: ModelParts, parts: Parts) -> Response:
    return await tensorflow_rest.predict(request, model, parts, await tensorflow_rest.which_of(request))
