"""The clients of a model's routes, created from their settings and the keys in the environment."""

import os
import random
import time
from collections.abc import Mapping, Sequence

import httpx

from online.errors import BadInput, SetupError
from online.plugins.router.route_settings import RouteSettings, read_route
from online.plugins.router.upstream import RouteClient
from online.schemas.json_values import JSONObject


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
