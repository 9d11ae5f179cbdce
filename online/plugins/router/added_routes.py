"""Routes that were added at run time, and what else is declared about a router in its log.

    POST .../routes --one transaction--> settings of the route in a table, its facts in the log (declare)
                                            |
                                            +--every worker, within seconds--> a client (routed_chat.py)

The table has what a request needs: the URL, the name of the variable with the key. The log has what decides: the prices.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Field, SQLModel

from online.plugins.router.answer_texts import ANSWER_TEXTS
from online.plugins.router.held_routes import HELD_ROUTES
from online.plugins.router.route_settings import RouteSettings
from online.schemas.events import Event
from online.schemas.json_values import JSON
from online.settings.models import ROUTE_FACTS
from online.store.database.tables import TableGroup, table_of
from online.store.database.values import now
from online.store.events import append_events


class AddedRouteRow(SQLModel, table=True):
    """A route that was added at run time. settings: JSON, as in a `[[models.routes]]` table."""

    __tablename__ = "added_route"

    model: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    settings: str
    created_at: str  # ISO 8601, UTC


ADDED_ROUTES = table_of(AddedRouteRow)
ROUTER_TABLES = TableGroup(
    "router", (ANSWER_TEXTS, ADDED_ROUTES, HELD_ROUTES), ("1",), Path(__file__).parent / "migrations"
)


def load_added_routes(connection: Connection, model: str) -> dict[str, RouteSettings]:
    """Return the routes that were added to a model, by name, in the order in which they were."""
    query = select(ADDED_ROUTES.c.settings).where(ADDED_ROUTES.c.model == model)
    rows = connection.scalars(query.order_by(ADDED_ROUTES.c.created_at, ADDED_ROUTES.c.name))
    routes = [RouteSettings.model_validate_json(each) for each in rows]
    return {each.name: each for each in routes}


def add_route(connection: Connection, model: str, route: RouteSettings, id: str) -> int:
    """Add a route, in place of an added one of its name; return the offset of its event. id: a new one."""
    own = (ADDED_ROUTES.c.model == model, ADDED_ROUTES.c.name == route.name)
    connection.execute(delete(ADDED_ROUTES).where(*own))
    settings = route.model_dump_json(exclude_defaults=True)
    row = AddedRouteRow(model=model, name=route.name, settings=settings, created_at=now())
    connection.execute(insert(ADDED_ROUTES).values(**row.model_dump()))
    facts = route.model_dump(include={*ROUTE_FACTS} - {"name"}, exclude_none=True)
    change_route(connection, model, route.name, True, f"{id}-restore")  # it may have been retired
    return declare(connection, model, route.name, facts, id)


def change_route(connection: Connection, model: str, name: str, active: bool, id: str) -> int:
    """Record that a route is retired or restored; return the offset of the event."""
    event = Event(id, "restore" if active else "retire", label=name)
    return append_events(connection, model, [event], source="operator")[-1]


def declare(connection: Connection, model: str, name: str, table: Mapping[str, JSON], id: str) -> int:
    """Record facts of a route, or settings of the model where name is ""; return the offset of the event."""
    event = Event(id, "declare", label=name, text=json.dumps(table))
    return append_events(connection, model, [event], source="operator")[-1]
