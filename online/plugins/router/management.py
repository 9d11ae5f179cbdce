"""Changes of a router at run time: its routes, and its budget. Each is an event of the log, so that every replica knows it."""

import os
from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from online.api.audit import name_offset, record_action
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput, Conflict, NotFound
from online.plugins.router.added_routes import add_route, change_route, declare
from online.plugins.router.live_router import find_router
from online.plugins.router.route_settings import RouteSettings
from online.plugins.router.routed_chat import RoutedChat
from online.schemas.fields import NativeRequest, Wire
from online.serving.model_runtime import ModelRuntime

KEY_PREFIX = "ONLINE_ROUTE_"  # of the variables that a route which is added at run time may have its key in

router = Router()

Weight = Annotated[float | None, Field(None, ge=0, le=1e6, allow_inf_nan=False)]


class RouterSettings(NativeRequest):
    """Settings of a router that change at run time; one that is left out keeps its value. Bounds: those of the options."""

    max_cost_per_1k: Weight = Field(
        None, description="US dollars that 1,000 requests may cost on average; 0: no budget."
    )
    cost_weight: Weight
    latency_weight: Weight
    explore: float | None = Field(None, ge=0, le=0.25, allow_inf_nan=False)
    explore_new: float | None = Field(None, ge=0, le=0.5, allow_inf_nan=False)
    stay: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)


class RouteChange(Wire):
    """A change of a router."""

    name: str = Field(description="The route; empty for settings of the router.")
    offset: int = Field(description="A version with `learned_until` >= this offset decides by it.")


@router.post("/v1/models/{model}/routes", "operate", status_code=201, response_model=RouteChange, body=RouteSettings)
async def add(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Add a route, or replace one that was added before: the fields of a `[[models.routes]]` table.

    `key_env` names an environment variable of the service. It begins with ONLINE_ROUTE_, so that no other secret leaves the service.
    """
    find_router(model)
    route = await read_body_as(request, RouteSettings, runtime.settings)
    if route.name in (each.name for each in model.parts.find(RoutedChat).routes.configured):
        raise Conflict(f"the route {route.name!r} is in the configuration of {model.spec.name}; change it there")
    if route.key_env and not (route.key_env.startswith(KEY_PREFIX) and os.environ.get(route.key_env)):
        raise BadInput(
            f"key_env: {route.key_env!r} is no variable that is set for the service and begins with {KEY_PREFIX}"
        )
    id, name = model.new_id(), model.spec.name
    offset = await model.commit(lambda connection: add_route(connection, name, route, id))
    await record_action(request, "add_route", name, name_offset(offset))
    return json_response({"name": route.name, "offset": offset}, 201, live_headers(model))


@router.put(
    "/v1/models/{model}/routes/settings", "operate", status_code=202, response_model=RouteChange, body=RouterSettings
)
async def change_settings(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Change the budget, or how the router weighs and explores. It counts from the next version on, in every replica."""
    find_router(model)
    given = await read_body_as(request, RouterSettings, runtime.settings)
    table = given.model_dump(exclude_none=True)
    if not table:
        raise BadInput(f"give one of {', '.join(RouterSettings.model_fields)}")
    id, name = model.new_id(), model.spec.name
    offset = await model.commit(lambda connection: declare(connection, name, "", table, id))
    await record_action(request, "declare", name, name_offset(offset))
    return json_response({"name": "", "offset": offset}, 202, live_headers(model))


@router.delete("/v1/models/{model}/routes/{name:path}", "operate", status_code=202, response_model=RouteChange)
async def retire(request: Request, model: ModelDep, name: str) -> Response:
    """Send no more questions to a route. What is known about it is kept until it is restored."""
    return await change(request, model, name, active=False)


@router.put("/v1/models/{model}/routes/{name:path}", "operate", status_code=202, response_model=RouteChange)
async def restore(request: Request, model: ModelDep, name: str) -> Response:
    """Send questions to a retired route again."""
    return await change(request, model, name, active=True)


async def change(request: Request, model: ModelRuntime, name: str, active: bool) -> Response:
    """Record that a route is retired or restored. Raises NotFound."""
    known = {*find_router(model).summarise().routes, *model.parts.find(RoutedChat).clients}
    if name not in known:
        raise NotFound(f"{model.spec.name} has no route {name!r}; its routes are {', '.join(sorted(known)) or 'none'}")
    id, of = model.new_id(), model.spec.name
    offset = await model.commit(lambda connection: change_route(connection, of, name, active, id))
    await record_action(request, "restore_route" if active else "retire_route", of, name_offset(offset))
    return json_response({"name": name, "offset": offset}, 202, live_headers(model))
