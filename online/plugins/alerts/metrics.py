"""The metrics of alerts."""

from online.telemetry import Metrics, MetricsPart


class AlertMetrics(MetricsPart):
    """Counts attempts to deliver alerts."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.deliveries = metrics.counter(
            "online_alert_deliveries_total",
            "Attempts to send an alert to a webhook: delivered, failed (it is sent again), or given up",
            "outcome",
        )
