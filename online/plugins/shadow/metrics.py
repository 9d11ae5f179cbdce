"""The metrics of shadow versions."""

from online.telemetry import Metrics, MetricsPart


class ShadowMetrics(MetricsPart):
    """Counts requests that a shadow version did not get."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.dropped = metrics.counter(
            "online_shadows_dropped_total", "Requests not copied to the shadow version because it was busy", "model"
        )
