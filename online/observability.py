"""Log lines as facts, and the one place where metrics are named."""

import json
import logging
import sys
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
        self.freshness_seconds = Histogram(
            "online_freshness_seconds",
            "feedback acknowledged to live",
            by_model,
            registry=own,
            buckets=LATENCY_BUCKETS_S,
        )
        self.live_version = Gauge("online_live_version", "the version that answers", by_model, registry=own)
        self.learned_until = Gauge(
            "online_learned_until", "the offset the live version has learned", by_model, registry=own
        )
        self.drift_alarms = Gauge(
            "online_drift_alarms", "drift alarms raised until the live version", by_model, registry=own
        )
        self.swaps = Counter("online_swaps_total", "versions swapped in", by_model, registry=own)
        self.learner_up = Gauge("online_learner_up", "1 while the supervised learner process runs", registry=own)
        self.learner_restarts = Counter(
            "online_learner_restarts_total", "times the learner was started again", registry=own
        )
