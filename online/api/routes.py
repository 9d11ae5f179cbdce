"""The one table of routes: what a path is, who may call it, and which process answers it.

Each operation is declared where it is written:

    router = Router()

    @router.post("/v1/models/{model}:predict", "predict", body=PredictRequest, widget=True, every_worker=True)
    async def predict(...) -> Response: ...

    routers of all features --> RouteTable --scopes----------> each route's own check (require)
                                           --fast handlers---> FastPath (http/dispatch.py)
                                           --answered by rows> DirectPredictions (http/direct.py)
                                           --every worker----> Forwarder (http/forwarding.py)
                                           --widget----------> WidgetAccess (middleware/browser_rules.py)
                                           --compressed------> Compression (web/compression.py)
                                           --bodies----------> the OpenAPI document (openapi.py)
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack

from fastapi import APIRouter, Depends, FastAPI, Request, Response, params
from pydantic import BaseModel

from online.api.auth.authentication import CALLER
from online.api.auth.scopes import Access, check_scope
from online.api.responses import ERROR_RESPONSES, Responses, request_body
from online.schemas.access.callers import Caller
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

FastHandler = Callable[[Request, ModelRuntime, Runtime, Caller], Awaitable[Response]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Response]])
ANY_METHOD = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PARAMETER = re.compile(r"{(\w+)(:path)?}")


class RouterOptions(TypedDict, total=False):
    """The options that all routes of a router have in common, as FastAPI's `APIRouter` takes it."""

    responses: Responses
    dependencies: Sequence[params.Depends]
    include_in_schema: bool


class RouteOptions(TypedDict, total=False):
    """The options that describe the answer of an operation, as FastAPI's `api_route` takes it."""

    response_model: object
    status_code: int
    responses: Responses
    response_class: type[Response]
    name: str
    include_in_schema: bool
    deprecated: bool
    openapi_extra: JSONObject


class OperationOptions(RouteOptions, total=False):
    """The options of `Router.add`."""

    every_worker: bool
    widget: bool
    fast: FastHandler | bool
    takes_rows: bool
    body: type[BaseModel] | None
    requires_body: bool


@dataclass(frozen=True, slots=True)
class Route:
    """One operation.

    Attributes:
        path: with its parameters in braces, such as /v1/models/{model}:predict.
        access: the scope that a caller needs, or how else it is allowed to call.
        handler: what FastAPI calls.
        model_parameter: the path parameter that names the model, which the caller must be allowed to use.
        every_worker: whether each worker answers; all other routes are answered by the first one.
        widget: whether pages of `widget_origins` may use it.
        compressed: whether its answers may be compressed; never where they hold a secret or the words of one user.
        fast: called instead of the handler, with the model, without the search through all routes.
        takes_rows: whether plain rows of numbers are answered without ASGI.
        body: the schema of a body that the handler parses itself.
    """

    method: str
    path: str
    access: Access
    handler: Callable[..., object]
    model_parameter: str
    every_worker: bool = False
    widget: bool = False
    compressed: bool = True
    fast: FastHandler | None = None
    takes_rows: bool = False
    body: type[BaseModel] | None = None

    async def require(self, request: Request) -> None:
        """Check the caller's scope and models. Raises Unauthorized and Forbidden."""
        check_scope(request.scope[CALLER], self.access, request.path_params.get(self.model_parameter))


class Router:
    """Declares the routes of a module, as FastAPI's APIRouter does, with the access that each needs."""

    def __init__(
        self, compressed: bool = True, model_parameter: str = "model", **options: Unpack[RouterOptions]
    ) -> None:
        """options: of FastAPI's APIRouter. compressed, model_parameter: of all routes, as in `Route`."""
        options.setdefault("responses", ERROR_RESPONSES)
        self.fastapi = APIRouter(**options)
        self.routes: list[Route] = []
        self.compressed, self.model_parameter = compressed, model_parameter

    def get(self, path: str, access: Access, **options: Unpack[OperationOptions]) -> Callable[[Endpoint], Endpoint]:
        """Declare a GET operation."""
        return self.add(("GET",), path, access, **options)

    def post(self, path: str, access: Access, **options: Unpack[OperationOptions]) -> Callable[[Endpoint], Endpoint]:
        """Declare a POST operation."""
        return self.add(("POST",), path, access, **options)

    def put(self, path: str, access: Access, **options: Unpack[OperationOptions]) -> Callable[[Endpoint], Endpoint]:
        """Declare a PUT operation."""
        return self.add(("PUT",), path, access, **options)

    def patch(self, path: str, access: Access, **options: Unpack[OperationOptions]) -> Callable[[Endpoint], Endpoint]:
        """Declare a PATCH operation."""
        return self.add(("PATCH",), path, access, **options)

    def delete(self, path: str, access: Access, **options: Unpack[OperationOptions]) -> Callable[[Endpoint], Endpoint]:
        """Declare a DELETE operation."""
        return self.add(("DELETE",), path, access, **options)

    def add(
        self,
        methods: Sequence[str],
        path: str,
        access: Access,
        *,
        every_worker: bool = False,
        widget: bool = False,
        fast: FastHandler | bool = False,
        takes_rows: bool = False,
        body: type[BaseModel] | None = None,
        requires_body: bool = True,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator that declares an operation; options: as of FastAPI's `api_route`.

        fast: as in `Route`; True: the handler itself.
        """
        if body is not None:
            options["openapi_extra"] = request_body(body, requires_body)

        def declare(endpoint: Endpoint) -> Endpoint:
            routes = [
                Route(
                    method=method,
                    path=path,
                    access=access,
                    handler=endpoint,
                    model_parameter=self.model_parameter,
                    every_worker=every_worker,
                    widget=widget,
                    compressed=self.compressed,
                    fast=choose_fast(fast, endpoint),
                    takes_rows=takes_rows,
                    body=body,
                )
                for method in methods
            ]
            self.routes += routes
            self.fastapi.add_api_route(
                path, endpoint, methods=list(methods), dependencies=[Depends(routes[0].require)], **options
            )
            return endpoint

        return declare


def choose_fast(fast: FastHandler | bool, handler: FastHandler) -> FastHandler | None:
    """Return the handler of the fast path: the operation's own, another one, or none."""
    if isinstance(fast, bool):
        return handler if fast else None
    return fast


class RouteTable:
    """The routes of a service, in the order in which they are tried."""

    def __init__(self, routers: Iterable[Router]) -> None:
        """Collect the routes. Raises ValueError for an operation that is declared twice."""
        self.routers = list(routers)
        self.routes: dict[tuple[str, str], Route] = {}
        for route in (route for router in self.routers for route in router.routes):
            if (route.method, route.path) in self.routes:
                raise ValueError(f"{route.method} {route.path} is declared twice")
            self.routes[route.method, route.path] = route
        everywhere = [route for route in self.routes.values() if route.every_worker]
        self._everywhere = {
            method: compile_paths(everywhere, method) for method in {each.method for each in everywhere}
        }
        widget_paths = dict.fromkeys(route.path for route in self.routes.values() if route.widget)
        self._widget = {compile_path(path): self._widget_methods(path) for path in widget_paths}

    def __iter__(self) -> Iterator[Route]:
        return iter(self.routes.values())

    def include_in(self, app: FastAPI) -> None:
        """Add every operation to an application.

        They are tried one after another: first those without parameters, of these the ones that answer the most requests.
        """
        for router in self.routers:
            app.include_router(router.fastapi)
        busy = {route.path for route in self.routes.values() if route.every_worker}
        paths = {place: str(getattr(route, "path", "{")) for place, route in enumerate(app.router.routes)}
        ordered = sorted(paths, key=lambda place: ("{" in paths[place], paths[place] not in busy))
        app.router.routes[:] = [app.router.routes[place] for place in ordered]

    def is_answered_by_every_worker(self, method: str, path: str) -> bool:
        """Return whether any worker answers a request. path: without the prefix of a proxy."""
        paths = self._everywhere.get(method)
        return paths is not None and paths.fullmatch(path) is not None

    def find_widget_methods(self, path: str) -> tuple[str, ...]:
        """Return the methods with which the widget uses a path; () for a path that it does not use."""
        return next((methods for pattern, methods in self._widget.items() if pattern.fullmatch(path)), ())

    def list_compressed(self) -> list[str]:
        """Return the paths of the routes whose answers may be compressed."""
        return list(dict.fromkeys(route.path for route in self.routes.values() if route.compressed))

    def list_bodies(self) -> list[type[BaseModel]]:
        """Return the schemas of the bodies that handlers parse themselves."""
        return list(dict.fromkeys(route.body for route in self.routes.values() if route.body is not None))

    def _widget_methods(self, path: str) -> tuple[str, ...]:
        return tuple(route.method for route in self.routes.values() if route.widget and route.path == path)


def compile_paths(routes: Iterable[Route], method: str) -> re.Pattern[str]:
    """Return a pattern that matches the paths of the routes with this method."""
    return re.compile("|".join(compile_path(route.path).pattern for route in routes if route.method == method))


def compile_path(path: str) -> re.Pattern[str]:
    """Return a pattern of the paths of a route; a parameter has no slash and no colon, unless it is a whole path."""
    parts = PARAMETER.split(path)
    texts, are_paths = parts[::3], parts[2::3]
    patterns = [".+" if is_path else "[^/:]+" for is_path in are_paths]
    return re.compile("".join(re.escape(text) + pattern for text, pattern in zip(texts, [*patterns, ""], strict=True)))
