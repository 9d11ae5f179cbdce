"""Log lines as facts, and the one place where metrics are named."""

import json
import logging
import os
import sys
import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


class FactFormatter(logging.Formatter):
    """`12:00:01 learner published model=chat version=12`: an event's name, then its facts as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        facts = getattr(record, "facts", {})
        words = [clock, record.name.removeprefix("online."), record.getMessage()]
        words += [
            f"{key}={json.dumps(value) if isinstance(value, str) and ' ' in value else value}"
            for key, value in facts.items()
        ]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(level: str = "INFO") -> None:
    """Send every fact to standard error. Called by a command, never at import."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FactFormatter())
    logging.getLogger("online").handlers = [handler]
    logging.getLogger("online").setLevel(level)
    logging.getLogger("online").propagate = False


def fact(logger: logging.Logger, event: str, level: int = logging.INFO, **facts: object) -> None:
    """Log one event with its facts."""
    logger.log(level, event, extra={"facts": facts})


SHARED = "PROMETHEUS_MULTIPROC_DIR"  # names the folder where several processes count as one, before this is imported


class Metrics:
    """What a service counts. One registry per process, made by whoever starts it; names follow Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by_model, own = ["model"], self.registry
        self.predictions = Counter("online_predictions_total", "answered instances", by_model, registry=own)
        self.feedback = Counter("online_feedback_total", "acknowledged feedback", ["model", "kind"], registry=own)
        self.refused = Counter(
            "online_refused_requests_total", "requests answered with an error", ["status"], registry=own
        )
        self.prediction_seconds = Histogram(
            "online_prediction_seconds",
            "predict, body read to answer ready",
            by_model,
            registry=own,
            buckets=LATENCY_BUCKETS_S,
        )
        self.batch_instances = Histogram(
            "online_batch_instances", "instances in one micro-batch", by_model, registry=own, buckets=BATCH_BUCKETS
        )
        self.waiting_instances = Gauge(
            "online_waiting_instances",
            "instances that wait for a micro-batch",
            by_model,
            registry=own,
            multiprocess_mode="livesum",
        )
        self.wait_seconds = Histogram(
            "online_wait_seconds", "wait for a micro-batch", by_model, registry=own, buckets=LATENCY_BUCKETS_S
        )
        self.compute_seconds = Histogram(
            "online_compute_seconds",
            "the model's own work on a micro-batch",
            by_model,
            registry=own,
            buckets=LATENCY_BUCKETS_S,
        )
        self.shadows_dropped = Counter(
            "online_shadows_dropped_total", "requests that the shadow had no time for", by_model, registry=own
        )
        self.freshness_seconds = Histogram(
            "online_freshness_seconds",
            "feedback acknowledged to live",
            by_model,
            registry=own,
            buckets=LATENCY_BUCKETS_S,
        )
        self.jobs = Gauge(
            "online_jobs", "batch prediction jobs that wait or run", registry=own, multiprocess_mode="livesum"
        )
        self.job_rows = Counter(
            "online_job_rows_total", "rows that batch prediction jobs are done with", ["model", "outcome"], registry=own
        )
        self.live_version = Gauge(
            "online_live_version", "the version that answers", by_model, registry=own, multiprocess_mode="liveall"
        )
        self.learned_until = Gauge(
            "online_learned_until",
            "the offset the live version has learned",
            by_model,
            registry=own,
            multiprocess_mode="liveall",
        )
        self.drift_alarms = Gauge(
            "online_drift_alarms",
            "drift alarms raised until the live version",
            by_model,
            registry=own,
            multiprocess_mode="liveall",
        )
        self.swaps = Counter("online_swaps_total", "versions swapped in", by_model, registry=own)
        self.learner_up = Gauge(
            "online_learner_up",
            "1 while the supervised learner process runs",
            registry=own,
            multiprocess_mode="livemax",
        )
        self.learner_restarts = Counter(
            "online_learner_restarts_total", "times the learner was started again", registry=own
        )

    def text(self, lags: Iterable[tuple[int, str, int]]) -> bytes:
        """All of it as Prometheus reads it, of all workers. lags: (worker, model, events that it has yet to learn)."""
        lag = GaugeMetricFamily(
            "online_lag_events", "events that what a worker answers with has yet to learn", labels=["worker", "model"]
        )
        for worker, model, events in lags:
            lag.add_metric([str(worker), model], events)
        now = CollectorRegistry()
        now.register(Told(lag))
        counted = self.registry
        if SHARED in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(now)

    @staticmethod
    def forget(pid: int) -> None:
        """A worker is gone: what it counted stays, what it was at does not."""
        if SHARED in os.environ:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Told:
    """A collector of what is known already."""

    def __init__(self, *families: GaugeMetricFamily) -> None:
        self.families = families

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self.families
