"""Accounts of what answers took: counted for the operator, and recorded for the router to learn from.

answer complete, or cut --record--> metrics, and an outcome in the log (outcomes.py)
failure of a route ------note-----> metrics, and a line in the log of the service
"""

import logging

from online.plugins.router.chosen_routes import ChosenRoute
from online.plugins.router.declared import DeclaredRoute
from online.plugins.router.metrics import RouteMetrics
from online.plugins.router.outcomes import OutcomeQueue
from online.plugins.router.route_settings import RouteSettings
from online.plugins.router.upstream import TokenUsage, UpstreamFailure
from online.schemas.feedback import FeedbackItem, RouteOutcome
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.telemetry import log_event

log = logging.getLogger("online.router")


class RouteAccounts:
    """The accounts of the routes of one model."""

    def __init__(self, model: ModelRuntime, metrics: RouteMetrics) -> None:
        self.name, self.metrics = model.spec.name, metrics
        self.outcomes = OutcomeQueue(model, metrics.lost.labels(model.spec.name).inc)

    def record(
        self, chosen: ChosenRoute, facts: JSONObject, usage: TokenUsage, seconds: tuple[float, float], end: str
    ) -> float:
        """Record what an answer took; return its cost in US dollars.

        facts: of its request. seconds: to its first token, and to its end. end: answered, or why it ended before.
        """
        route, labels = chosen.route, (self.name, chosen.route.name)
        cost = route.price(usage.tokens_in, usage.tokens_out, usage.tokens_cached)
        self.metrics.requests.labels(*labels, end).inc()
        self.metrics.dollars.labels(*labels).inc(cost)
        for kind, count in zip(("in", "out", "cached"), usage, strict=False):
            self.metrics.tokens.labels(*labels, kind).inc(count)
        outcome = RouteOutcome(
            cost=cost,
            seconds=seconds[1],
            first_token_seconds=seconds[0],
            unit=DeclaredRoute(route.name, route.price_in, route.price_out).price_level,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            tokens_cached=usage.tokens_cached,
            failure=None if end == "answered" else end,
        )
        if chosen.is_recorded:
            self.outcomes.add(FeedbackItem(id=f"outcome-{chosen.id}", prediction_id=chosen.id, outcome=outcome))
        elif facts.get("task"):  # it is no prediction, but it is paid for
            self.outcomes.add(FeedbackItem(input=facts, choice=route.name, outcome=outcome))
        return cost

    def note_failure(self, route: RouteSettings, failure: UpstreamFailure) -> None:
        """Tell the operator of a failure. It says nothing about the quality of answers."""
        kind = "refused" if failure.is_callers else failure.kind
        self.metrics.requests.labels(self.name, route.name, kind).inc()
        if not failure.is_callers:
            facts = {"model": self.name, "route": route.name, "kind": kind, "reason": failure.message}
            log_event(log, "route failed", logging.WARNING, **facts)
