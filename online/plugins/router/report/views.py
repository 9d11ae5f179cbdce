"""The views of a router's report, and of the preview of another budget."""

import asyncio
import time
from typing import Annotated, NamedTuple
from weakref import WeakKeyDictionary

from fastapi import Query, Response
from pydantic import Field

from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.plugins.router.live_router import find_router
from online.plugins.router.report.logged_answers import NEWEST, load_answers
from online.plugins.router.report.route_report import describe_answers, preview_budget
from online.plugins.router.routed_chat import RoutedChat
from online.plugins.router.views import describe_budget, describe_client
from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime

REUSED = 10.0  # times as long as it took to make a report, it is not made again


class MadeReport(NamedTuple):
    """A report that was made. made_at: monotonic seconds."""

    newest: int
    version: int
    made_at: float
    took_s: float
    report: JSONObject


MADE = WeakKeyDictionary[RoutedChat, MadeReport]()  # the last one of each router

router = Router()

Newest = Annotated[int, Query(ge=1, le=50_000, description="Answers that are read, the newest.")]
Budget = Annotated[float, Query(ge=0, le=1e6, description="US dollars per 1,000 requests; 0: no budget.")]


class FigureInterval(Wire):
    """A figure with its interval of 95 %."""

    value: float
    low: float
    high: float


class ReportedRoute(Wire):
    """One route: its state, and what it has answered."""

    name: str
    state: str = Field(description="Of its circuit breaker, or elsewhere, or retired.")
    model: str
    price_in: float
    price_out: float
    answers: int
    share: float
    dollars: float
    cost_per_1k: FigureInterval | None
    satisfaction: FigureInterval | None = Field(
        description="The mean of its ratings, of the questions that it has answered."
    )
    rated: int
    seconds: float | None = Field(description="The median of its answers.")
    fell: float = Field(description="By how much its newest rewards lie below their predictions; 0: within chance.")


class PolicyWorth(Wire):
    """The worth of answers, and their cost."""

    satisfaction: FigureInterval | None
    cost_per_1k: FigureInterval | None


class RouteAlone(PolicyWorth):
    """An estimate for one route, had it answered everything."""

    route: str


class SavedMoney(Wire):
    """The money saved against the route that is best alone."""

    strongest: str
    dollars: FigureInterval
    share: FigureInterval


class AnswersOfDay(Wire):
    """The answers of a day (UTC)."""

    day: str
    answers: int
    dollars: float
    by_route: dict[str, int]


class TopicRoute(Wire):
    """One route at a topic."""

    route: str
    satisfaction: FigureInterval = Field(description="Had it answered all questions of the topic.")
    answers: int
    rated: int


class ReportedTopic(Wire):
    """A topic of questions. routes: the best first."""

    words: list[str]
    questions: int
    example: str
    routes: list[TopicRoute]


class BudgetState(Wire):
    """The budget and its pace."""

    max_cost_per_1k: float | None
    cost_per_1k: float
    price: float = Field(description="Reward that a cost of one budget must bring now; 0: the budget is no limit now.")


class RouterReport(Wire):
    """The report about a router, of its newest answers."""

    answers: int
    rated: int
    dollars: float
    since: str | None
    routes: list[ReportedRoute]
    alone: list[RouteAlone]
    router: PolicyWorth
    saved: SavedMoney | None
    days: list[AnswersOfDay]
    topics: list[ReportedTopic]
    budget: BudgetState


class BudgetWorth(PolicyWorth):
    """The worth and the cost of answers under a budget."""

    max_cost_per_1k: float | None
    shares: dict[str, float]


class BudgetPreview(Wire):
    """The newest answers, and an estimate of them under another budget."""

    answers: int
    rated: int
    now: BudgetWorth
    then: BudgetWorth


@router.get("/v1/models/{model}/routes/report", "operate", response_model=RouterReport)
async def report_routes(model: ModelDep, newest: Newest = NEWEST) -> Response:
    """Report what the routes have answered, cost and earned, what each would have alone, and which is best at which topic.

    Estimates are doubly robust, by the logged propensities.
    """
    answering = find_router(model)
    routed = model.parts.find(RoutedChat)
    report = await load_report(model, routed, newest)
    known, active = answering.summarise(), {each.name for each in answering.present().routes}
    routes = [
        {
            **each,
            **describe_client(routed.clients.get(each["name"]), each["name"] in active),
            "fell": known.routes.get(each["name"], {}).get("fell", 0.0),
        }
        for each in report["routes"]
    ]
    return json_response({**report, "routes": routes, "budget": describe_budget(known)}, headers=live_headers(model))


async def load_report(model: ModelRuntime, routed: RoutedChat, newest: int) -> JSONObject:
    """Return the report; the one from before where nothing was learned since, and where making it takes long."""
    version, at, last = model.live.current.version, time.monotonic(), MADE.get(routed)
    if last is not None and last.newest == newest:
        is_recent = at - last.made_at < REUSED * last.took_s
        if last.version == version or is_recent:
            return last.report
    answers = await model.read(lambda connection: load_answers(connection, model.spec.name, newest))
    report = await asyncio.to_thread(describe_answers, answers, find_router(model).present(), model.spec.options)
    made_at = time.monotonic()
    MADE[routed] = MadeReport(newest, version, made_at, made_at - at, report)
    return report


@router.get("/v1/models/{model}/routes/preview", "operate", response_model=BudgetPreview)
async def preview_routes(model: ModelDep, max_cost_per_1k: Budget) -> Response:
    """FigureInterval from the newest answers what another budget would cost and earn."""
    answering = find_router(model)
    answers = await model.read(lambda connection: load_answers(connection, model.spec.name))
    arguments = answers, answering.present(), model.spec.options, max_cost_per_1k
    return json_response(await asyncio.to_thread(preview_budget, *arguments), headers=live_headers(model))
