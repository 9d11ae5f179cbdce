"""Counts which process has summed how many examples, for the log and the metrics of a learner that has workers."""

import threading
from collections import Counter

LEARNER = "learner"  # who sums what no worker has summed


def name_worker(number: int) -> str:
    """Return the name of a worker in logs and metrics."""
    return f"worker-{number}"


class SumTally:
    """The examples of each model by who summed them, since the process started. Any thread may count."""

    def __init__(self) -> None:
        self._counts, self._changes = Counter[tuple[str, str]](), threading.Lock()

    def add(self, model: str, by: str, count: int) -> None:
        """Count examples of a model that a process has summed."""
        with self._changes:
            self._counts[model, by] += count

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the counts by model and process."""
        with self._changes:
            return dict(sorted(self._counts.items()))


def describe_shares(counts: Counter[str]) -> dict[str, float]:
    """Return the share of each process that summed some examples, as the facts of a log line."""
    total = counts.total()
    return {f"{by}_ratio".replace("-", "_"): round(counts[by] / total, 3) for by in sorted(counts)}
