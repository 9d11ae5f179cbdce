"""The clients of a model's routes, created from their settings and the keys in the environment."""

import asyncio
import logging
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import httpx

from online.errors import BadInput, SetupError, Unavailable
from online.plugins.router.added_routes import load_added_routes
from online.plugins.router.route_settings import RouteSettings, read_route
from online.plugins.router.upstream import RouteClient, create_http
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.telemetry import log_event

log = logging.getLogger("online.router")

READ_S = 2.0  # between two readings of the added routes


def read_routes(model: str, tables: Sequence[JSONObject]) -> tuple[RouteSettings, ...]:
    """Return the routes of a model. Raises SetupError for a table that is not a route, and for two of one name."""
    try:
        routes = tuple(map(read_route, tables))
    except BadInput as error:
        raise SetupError(f"model {model!r}: {error}") from None
    names = [route.name for route in routes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SetupError(f"model {model!r} has two routes named {twice!r}; rename one of them")
    return routes


def read_keys(
    model: str, routes: Sequence[RouteSettings], environment: Mapping[str, str] = os.environ
) -> dict[str, str | None]:
    """Return the key of each route, by name; None for one that needs none. Raises SetupError for a key that is not there."""
    for route in routes:
        if route.key_env and not environment.get(route.key_env):
            raise SetupError(
                f"model {model!r}, route {route.name!r}: the environment variable {route.key_env}, which has the key, is not set"
            )
    return {route.name: environment[route.key_env] if route.key_env else None for route in routes}


def create_clients(
    model: str, routes: Sequence[RouteSettings], keys: Mapping[str, str | None], http: httpx.AsyncClient
) -> dict[str, RouteClient]:
    """Return a client for each route, by name. Raises SetupError for a URL that cannot be parsed."""
    try:
        return {
            route.name: RouteClient(route, http, time.monotonic, random.random, keys[route.name]) for route in routes
        }
    except BadInput as error:
        raise SetupError(f"model {model!r}: {error}") from None


class AddedClients:
    """The clients of routes that were added at run time. One whose key is missing here, or whose URL is broken, is left out."""

    def __init__(self, model: str, http: httpx.AsyncClient) -> None:
        self.model, self.http, self.clients = model, http, dict[str, RouteClient]()
        self._broken = dict[str, RouteSettings]()

    def update(self, routes: Mapping[str, RouteSettings]) -> dict[str, RouteClient]:
        """Return a client for each route, the one from before where nothing has changed."""
        kept = {name: each for name, each in self.clients.items() if routes.get(name) == each.route}
        for name, route in routes.items():
            if name not in kept and self._broken.get(name) != route:
                try:
                    keys = read_keys(self.model, [route])
                    kept |= create_clients(self.model, [route], keys, self.http)
                except SetupError as error:
                    self._broken[name] = route
                    log_event(log, "added route not used", logging.WARNING, model=self.model, reason=str(error))
        self.clients = {name: kept[name] for name in routes if name in kept}
        return self.clients


class RouteClients:
    """The clients of one model: of its configuration, and of routes that were added in any worker or replica."""

    def __init__(self, model: ModelRuntime) -> None:
        """Read the routes. Raises SetupError for routes that cannot be used."""
        self.model, self.name = model, model.spec.name
        self.configured = read_routes(self.name, model.spec.routes)
        self._keys = read_keys(self.name, self.configured)
        self.by_name: dict[str, RouteClient] = {}
        self._own: dict[str, RouteClient] = {}
        self._http: httpx.AsyncClient | None = None
        self._added: AddedClients | None = None

    async def start(self) -> None:
        """Create the clients. Raises SetupError."""
        self._http = create_http()
        self._own = create_clients(self.name, self.configured, self._keys, self._http)
        self._added = AddedClients(self.name, self._http)
        await self.read_added()

    async def follow_added(self) -> None:
        """Read the added routes again and again, until cancelled."""
        while True:
            await asyncio.sleep(READ_S)
            with suppress(Unavailable):
                await self.read_added()

    async def read_added(self) -> None:
        """Read the routes that were added or replaced. Raises Unavailable."""
        assert self._added is not None, "the service has started"
        routes = await self.model.read(lambda connection: load_added_routes(connection, self.name))
        self.by_name = {**self._added.update(routes), **self._own}

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
