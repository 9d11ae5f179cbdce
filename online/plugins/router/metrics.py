"""The metrics of routes."""

from online.telemetry import Metrics, MetricsPart


class RouteMetrics(MetricsPart):
    """Counts what routes were asked for, and what it cost."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.requests = metrics.counter(
            "online_route_requests_total",
            "Requests to a route: answered, cut, refused (the request itself), or the reason of a failure",
            "model",
            "route",
            "outcome",
        )
        self.dollars = metrics.counter(
            "online_route_cost_dollars_total", "US dollars that answers cost", "model", "route"
        )
        self.tokens = metrics.counter(
            "online_route_tokens_total", "Tokens in, out and cached", "model", "route", "kind"
        )
        self.lost = metrics.counter("online_route_outcomes_lost_total", "Outcomes that were not recorded", "model")
