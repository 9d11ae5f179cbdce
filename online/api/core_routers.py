"""The routes of the core, in the order in which they are tried; those of plugins come after them."""

from online.api import unmatched
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
from online.api.routes import Router, RouteTable
from online.installed import collect_all

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


def create_table() -> RouteTable:
    """Return the table of all routes of the core and of the installed plugins."""
    of_plugins: list[Router] = collect_all("routers")
    return RouteTable(
        [*(module.router for module in MODULES), *of_plugins, unmatched.router]
    )  # the last one matches all


ROUTES = create_table()
