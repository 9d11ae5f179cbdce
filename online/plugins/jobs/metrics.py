"""The metrics of batch prediction jobs."""

from online.telemetry import Metrics, MetricsPart


class JobMetrics(MetricsPart):
    """The metrics of batch jobs."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.jobs = metrics.gauge("online_jobs", "Batch prediction jobs waiting or running", "livesum")
        self.rows = metrics.counter(
            "online_job_rows_total", "Rows processed by batch prediction jobs", "model", "outcome"
        )
