"""Structured log lines, reports of outages, every Prometheus metric, and the seam for traces.

log_event(log, "published", version=12)
    text:  2026-11-22T17:00:01.123Z INFO learner published version=12
    json:  {"time": "2026-11-22T17:00:01.123Z", "level": "info", "logger": "learner", "event": "published", "version": 12}
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from online.installed import ContributedParts, collect, collect_one
from online.settings import LogFormat, LogLevel

REMINDER_S = 60.0  # an outage that continues is reported again after this time
LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
METRICS_FOLDER = (
    "PROMETHEUS_MULTIPROC_DIR"  # several workers share this folder; set before prometheus_client is imported
)


# logs


def log_event(logger: logging.Logger, event: str, level: int = logging.INFO, **fields: object) -> None:
    """Log one event with its fields."""
    logger.log(level, event, extra={"fields": fields})


def configure_logging(level: LogLevel = "info", format: LogFormat = "text") -> None:
    """Send log lines to standard error. Commands call this; importing a module never does.

    Other libraries log warnings and errors only, in the same format.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.getLogger().handlers = [handler]
    logging.getLogger("online").setLevel(level.upper())


class TextFormatter(logging.Formatter):
    """Format a record as time, level, logger and event, then its fields as `key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of text."""
        fields = (f"{key}={format_value(value)}" for key, value in event_fields(record).items())
        line = " ".join((utc_time(record), record.levelname, short_name(record), record.getMessage(), *fields))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON. A field never replaces one of the record's own keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: dict[str, object] = {
            "time": utc_time(record),
            "level": record.levelname.lower(),
            "logger": short_name(record),
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line | event_fields(record) | line, default=str)


def event_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that `log_event` has added to a record."""
    return getattr(record, "fields", {})


def short_name(record: logging.LogRecord) -> str:
    """Return the logger's name without the prefix of this package."""
    return record.name.removeprefix("online.")


def utc_time(record: logging.LogRecord) -> str:
    """Return the time of a record: ISO 8601, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03d}Z"


def format_value(value: object) -> str:
    """Return a value as text, quoted if it has blanks."""
    return json.dumps(value) if isinstance(value, str) and (not value or set(value) & set(' \n"')) else str(value)


class OutageLog:
    """Report an outage when it begins, once a minute while it lasts, and when it ends.

        17:00:00 WARNING live store unavailable model=chat reason="connection refused"
        17:01:00 WARNING live store unavailable model=chat reason="connection refused" failures=240 seconds=60
        17:01:07 INFO live store unavailable: recovered model=chat failures=268 seconds=67

    One instance watches one dependency. It is not thread-safe: each thread has its own.
    """

    def __init__(
        self,
        logger: logging.Logger,
        event: str,
        clock: Callable[[], float] = time.monotonic,
        **fields: object,
    ) -> None:
        """event: names the outage. fields: added to each of its lines."""
        self._logger, self._event, self._clock, self._fields = logger, event, clock, fields
        self._failures = 0
        self._began_at = self._reported_at = 0.0

    @property
    def is_ongoing(self) -> bool:
        """Whether the outage has begun and not ended."""
        return self._failures > 0

    def record_failure(self, reason: object) -> None:
        """Count one failed attempt. The first is logged at once."""
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._began_at = self._reported_at = now
            self._log(self._event, logging.WARNING, reason=str(reason))
        elif now - self._reported_at >= REMINDER_S:
            self._reported_at = now
            self._log(self._event, logging.WARNING, reason=str(reason), **self._counts())

    def record_success(self) -> None:
        """Log the end of the outage, if there was one.

        This is cheap enough to call after every attempt.
        """
        if self._failures:
            self._log(f"{self._event}: recovered", logging.INFO, **self._counts())
            self._failures = 0

    def _counts(self) -> dict[str, int]:
        return {"failures": self._failures, "seconds": round(self._clock() - self._began_at)}

    def _log(self, event: str, level: int, **fields: object) -> None:
        self._logger.log(level, event, extra={"fields": self._fields | fields})


# metrics


class Metrics:
    """The metrics of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.predictions = self.counter("online_predictions_total", "Instances answered", "model")
        self.feedback = self.counter("online_feedback_total", "Feedback items acknowledged", "model", "kind")
        self.refused = self.counter("online_refused_requests_total", "Requests answered with an error", "status")
        self.prediction_seconds = self._seconds(
            "online_prediction_seconds", "Time from a predict request's body being read to its answer being ready"
        )
        self.batch_instances = self.histogram("online_batch_instances", "Instances in one micro-batch", BATCH_BUCKETS)
        self.waiting_instances = self.gauge(
            "online_waiting_instances", "Instances waiting for a micro-batch", "livesum", "model"
        )
        self.wait_seconds = self._seconds("online_wait_seconds", "Time an instance waits for a micro-batch")
        self.compute_seconds = self._seconds("online_compute_seconds", "Time the model computes a micro-batch")
        self.freshness_seconds = self._seconds(
            "online_freshness_seconds", "Time from feedback acknowledged to the first live version that has learned it"
        )
        self.disk_free_bytes = self.gauge(
            "online_disk_free_bytes", "Free bytes of the disk that holds the state folder", "livemin"
        )
        self.disk_is_short = self.gauge(
            "online_disk_is_short", "1 while fewer bytes are free than min_free_bytes, else 0", "livemax"
        )
        self.stored_predictions = self.gauge(
            "online_stored_predictions", "Recorded predictions, counted every five minutes", "livemax"
        )
        self.stored_prediction_bytes = self.gauge(
            "online_stored_prediction_bytes", "About how many bytes the recorded predictions take", "livemax"
        )
        self.journal_bytes = self.gauge(
            "online_journal_bytes", "Bytes of the journal: predictions until they are copied into the store", "livemax"
        )
        self.pruned = self.counter("online_pruned_total", "Rows and files that retention has deleted", "what")
        self.stream_repairs = self.counter(
            "online_stream_repairs_total",
            "Times that the copy of the log in Redis lacked entries or held foreign ones, and was written again",
            "model",
        )
        self.live_version = self.gauge("online_live_version", "Number of the live version", "liveall", "model")
        self.trusted_version = self.gauge(
            "online_trusted_version",
            "Number of the version that the guard compares the live one with",
            "liveall",
            "model",
        )
        self.learned_until = self.gauge(
            "online_learned_until", "Offset that the live version has learned", "liveall", "model"
        )
        self.standstill_seconds = self.gauge(
            "online_standstill_seconds",
            "Seconds without progress while feedback waits, once they are more than standstill_s; else 0",
            "livemax",
            "model",
        )
        self.drift_alarms = self.gauge(
            "online_drift_alarms", "Drift alarms raised up to the live version", "liveall", "model"
        )
        self.swaps = self.counter("online_swaps_total", "Versions swapped in", "model")
        self.learner_up = self.gauge("online_learner_up", "1 while the learner process runs, else 0", "livemax")
        self.learner_restarts = self.counter("online_learner_restarts_total", "Restarts of the learner process")
        self.parts = ContributedParts(create(self) for create in collect("metrics"))

    def counter(self, name: str, help: str, *labels: str) -> Counter:
        """Create a counter."""
        return Counter(name, help, labels, registry=self.registry)

    def gauge(
        self, name: str, help: str, across_workers: Literal["livesum", "liveall", "livemax", "livemin"], *labels: str
    ) -> Gauge:
        """Create a gauge. across_workers: how its values are combined."""
        return Gauge(name, help, labels, registry=self.registry, multiprocess_mode=across_workers)

    def histogram(self, name: str, help: str, buckets: Sequence[float]) -> Histogram:
        """Create a histogram with the label `model`."""
        return Histogram(name, help, ("model",), registry=self.registry, buckets=buckets)

    def _seconds(self, name: str, help: str) -> Histogram:
        return self.histogram(name, help, LATENCY_BUCKETS_S)

    def text(self, lags: Iterable[tuple[int, str, int]], refused: Mapping[str, int]) -> bytes:
        """Return every worker's metrics in the Prometheus text format.

        lags: (worker, model, events not yet learned). refused: of each model, how many events it could not learn.
        """
        lag = GaugeMetricFamily(
            "online_lag_events", "Events that the worker's live version has not learned yet", labels=["worker", "model"]
        )
        for worker, model, events in lags:
            lag.add_metric([str(worker), model], events)
        not_learned = GaugeMetricFamily(
            "online_refused_events", "Events that the model could not learn, with its present options", labels=["model"]
        )
        for model, events in refused.items():
            not_learned.add_metric([model], events)
        current = CollectorRegistry()
        current.register(ConstantCollector(lag, not_learned))
        counted = self.registry
        if METRICS_FOLDER in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(current)

    @staticmethod
    def remove_worker(pid: int) -> None:
        """Remove the gauges of a worker that has ended; its counters stay in the sums."""
        if METRICS_FOLDER in os.environ:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


class MetricsPart:
    """The metrics of a plugin: its constructor takes the `Metrics`, and registers them in `registry`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics


class ConstantCollector:
    """A collector of values that are already known."""

    def __init__(self, *families: GaugeMetricFamily) -> None:
        self.families = families

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the constant metrics."""
        return self.families


# traces


class Annotate(Protocol):
    """Adds attributes to a span while it is open."""

    def __call__(self, **attributes: str | int | bool) -> None: ...


def drop_attributes(**attributes: str | int | bool) -> None:
    """Do nothing."""


class Tracer:
    """Follows what happens in one process. This one does nothing; a plugin derives from it.

        serving:  request ( commit ) --acknowledge(offset)-->    ...    --serve(learned_until)
        learning:                              --learn(offsets)--> publish(learned_until)

    The processes have the offset in common. Times are nanoseconds since 1970. The methods of serving are called on the event loop,
    those of learning by the threads of several models. is_on: whether it does anything.
    """

    is_on = False

    def request(self, name: str, headers: Mapping[str, str]) -> AbstractContextManager[Annotate]:
        """Follow a request of another program until its answer. headers: with lower-case names; they may continue a trace."""
        return nullcontext(drop_attributes)

    def span(self, name: str) -> AbstractContextManager[Annotate]:
        """Follow a part of the present request."""
        return nullcontext(drop_attributes)

    def answer(
        self, name: str, headers: Iterable[tuple[bytes, bytes]], seconds: float, **attributes: str | int | bool
    ) -> None:
        """See a request that was answered at once. seconds: how long ago it began."""

    def continue_elsewhere(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers with which the present request is sent on, so that its trace goes on there."""
        return headers

    def acknowledge(self, model: str, offsets: Sequence[int]) -> None:
        """See feedback of the present request, which is in the log."""

    def learn(self, model: str, first: int, last: int, began_ns: int) -> None:
        """See that the events of these offsets are learned."""

    def publish(self, model: str, version: int, learned_until: int, began_ns: int) -> None:
        """See a version that was published."""

    def serve(self, model: str, version: int, learned_until: int, began_ns: int) -> None:
        """See a version that answers from now on. began_ns: when loading it began."""

    def close(self) -> None:
        """Send what is not sent yet, and end."""


def find_tracer(state: Path, process: str) -> Tracer:
    """Return that of the plugin which has one; else one that does nothing. The rest is as in `Plugin.tracer`."""
    return collect_one("tracer", Tracer(), state, process)
