"""Views of a router: its routes and its budget, and why a question went where it went."""

from typing import Literal

from fastapi import Response
from pydantic import Field

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import NotFound
from online.plugins.router.live_router import find_router
from online.plugins.router.model import RouterSummary
from online.plugins.router.routed_chat import RoutedChat
from online.plugins.router.upstream import RouteClient
from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject

NOTHING = {"ratings": 0.0, "outcomes": 0, "dollars": 0.0, "fell": 0.0}  # is known about a route

router = Router()


class RouteState(Wire):
    """One route, and what is known about it."""

    name: str
    model: str = Field(description="That the endpoint is asked for.")
    state: Literal["closed", "open", "half-open", "elsewhere", "retired"] = Field(
        description="Of its circuit breaker: open, it gets no requests. elsewhere: others ask it, and record its answers."
    )
    running: int = Field(description="Requests of this worker that are being answered.")
    price_in: float
    price_out: float
    ratings: float = Field(description="Thumbs and other signals, by their weights.")
    outcomes: int = Field(description="Answers whose cost is known.")
    dollars: float = Field(description="What all its answers have cost.")
    fell: float = Field(description="By how much its newest rewards lie below their predictions; 0: within chance.")


class RouterState(Wire):
    """The routes of a router, and its budget. US dollars."""

    routes: list[RouteState]
    max_cost_per_1k: float | None
    cost_per_1k: float = Field(description="The mean of the newest requests, by which the budget is kept.")
    price: float = Field(description="Reward that a cost of one budget must bring now; 0: the budget is no limit now.")


class RouteExpectation(Wire):
    """The expectations of one route's answer to a question."""

    route: str
    reward: float
    preference: float = Field(description="Of the team or user.")
    cost: float = Field(description="US dollars.")
    seconds: float
    utility: float = Field(description="Reward and preference, less what cost and waiting count.")
    probability: float = Field(description="With which it is chosen now.")
    ratings: float


class RouteReasons(Wire):
    """The reason why a question went to a route, by what the live version has learned."""

    model_version: str = Field(description="The version that explains: the live one.")
    answered_by: str = Field(description="The version that answered.")
    route: str | None
    propensity: float = Field(description="The probability with which it was chosen then.")
    expected: list[RouteExpectation] = Field(description="Of every route that could answer, the best first.")


@router.get("/v1/models/{model}/routes", "operate", response_model=RouterState)
async def list_routes(model: ModelDep) -> Response:
    """List the routes of a router, with what they have cost, and its budget."""
    answering, chat = find_router(model), model.parts.find(RoutedChat)
    known = answering.summarise()
    active = {each.name for each in answering.present().routes}
    names = [*chat.clients, *sorted({*known.routes} - {*chat.clients})]
    routes = [
        {
            "name": name,
            "running": chat.clients[name].running if name in chat.clients else 0,
            **describe_client(chat.clients.get(name), name in active),
            **known.routes.get(name, NOTHING),
        }
        for name in names
    ]
    return json_response({"routes": routes, **describe_budget(known)}, headers=live_headers(model))


def describe_client(client: RouteClient | None, is_active: bool) -> JSONObject:
    """Return the settings and the state of a route as the API shows them. client: None where others ask it."""
    state = (client.breaker.state if client else "elsewhere") if is_active else "retired"
    return {
        "model": client.route.model if client else "",
        "state": state,
        "price_in": client.route.price_in if client else 0.0,
        "price_out": client.route.price_out if client else 0.0,
    }


def describe_budget(known: RouterSummary) -> JSONObject:
    """Return the budget and its pace as the API shows them."""
    return {"max_cost_per_1k": known.budget or None, "cost_per_1k": known.cost_per_1k, "price": known.price}


@router.get("/v1/models/{model}/predictions/{id}/route", "predict", response_model=RouteReasons)
async def explain_route(model: ModelDep, caller: CallerDep, id: str) -> Response:
    """Explain why a question went to its route: what was expected of each, as the live version sees it."""
    answering = find_router(model)
    predictions = await model.transactions.load_predictions([id])
    if id not in predictions or not (caller.may("curate") or caller.may_act_for(predictions[id].user)):
        raise NotFound(f"{model.spec.name} has no prediction {id!r}")
    prediction = predictions[id]
    expected = [
        {
            "route": each.route,
            "reward": each.reward,
            "preference": each.preference,
            "cost": each.cost,
            "seconds": each.seconds,
            "utility": each.utility,
            "probability": each.probability,
            "ratings": each.ratings,
        }
        for each in answering.explain(prediction.features)
    ]
    content = {
        "model_version": str(model.live.current.version),
        "answered_by": str(prediction.version),
        "route": prediction.choice,
        "propensity": prediction.propensity,
        "expected": expected,
    }
    return json_response(content, headers=live_headers(model))
