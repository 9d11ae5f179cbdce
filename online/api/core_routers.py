"""The routes of the core, in the order in which they are tried; those of plugins come after them."""

from fastapi import Request, Response

from online.api.auth import key_routes, session
from online.api.rest import (
    classes,
    conversations,
    events,
    feedback,
    health,
    models,
    predict,
    replies,
    versions,
)
from online.api.routes import ANY_METHOD, Router, RouteTable
from online.api.shared_routes import Dialect
from online.installed import collect, collect_all

MODULES = (
    predict,
    feedback,
    models,
    replies,
    conversations,
    classes,
    versions,
    events,
    health,
    session,
    key_routes,
)

unmatched = Router()


@unmatched.add(ANY_METHOD, "/v1/{path:path}", "anybody", include_in_schema=False)
async def refuse_path(request: Request) -> Response:
    """Refuse a path under /v1 that no other route matches, in the words of the protocol that the request is meant for."""
    dialect: Dialect = request.app.state.dialect
    found = collect("unmatched_error", request)
    raise found[0] if found else dialect.malformed(request)


def create_table() -> RouteTable:
    """Return the table of all routes of the core and of the installed plugins."""
    of_plugins: list[Router] = collect_all("routers")
    return RouteTable([*(module.router for module in MODULES), *of_plugins, unmatched])  # the last one matches all


ROUTES = create_table()
