"""The metrics of devices, which the reports of all processes say."""

from collections import Counter
from collections.abc import Iterable, Sequence

from online.plugins.devices.schemas import DeviceReport
from online.telemetry import Metrics, MetricsPart


class DeviceMetrics(MetricsPart):
    """Gauges of lacks of memory, and of the examples that each process has summed."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.memory_fallbacks = metrics.gauge(
            "online_memory_fallbacks",
            "How often a device had too little memory for a model, since its process started",
            "livemax",
            "role",
            "model",
        )
        self.summed_examples = metrics.gauge(
            "online_summed_examples",
            "Examples that the learner and each of its workers have summed while it was far behind, since it started",
            "livemax",
            "model",
            "by",
        )

    def count_sums(self, reports: Sequence[DeviceReport]) -> None:
        """Set the metric of examples that the learner and each of its workers have summed, for each model."""
        for each in (each for report in reports for each in report.summed):
            self.summed_examples.labels(each.model, each.by).set(each.examples)

    def count_fallbacks(self, reports: Sequence[DeviceReport], models: Iterable[str]) -> None:
        """Set the metric of fallbacks for lack of memory, for each model."""
        counts = Counter[tuple[str, str]]({(role, name): 0 for role in ("learner", "server") for name in models})
        for report in reports:
            for each in report.fallbacks:
                counts[each.role, each.model] += each.count
        for labels, count in counts.items():
            self.memory_fallbacks.labels(*labels).set(count)
