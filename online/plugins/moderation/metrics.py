"""The metrics of moderation."""

from online.telemetry import Metrics, MetricsPart


class ModerationMetrics(MetricsPart):
    """Counts callers by their state, and changes of it."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.callers = metrics.gauge(
            "online_callers",
            "Callers that are not trusted, by what the review made of them",
            "livemax",
            "model",
            "state",
        )
        self.caller_decisions = metrics.counter(
            "online_caller_decisions_total", "Changes of the state of a caller", "model", "state"
        )
