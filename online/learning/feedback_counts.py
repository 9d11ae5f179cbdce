"""Counts of the feedback that a state has learned, for the metrics of its versions."""

from dataclasses import dataclass

from online.schemas.events import Event, is_positive


@dataclass(slots=True)
class FeedbackCounts:
    """Events learned, answers rated and answers that were right, counted in the order of the log.

    `right` is not counted for numbers, which are never simply right or wrong.
    """

    counts_right: bool
    events: int = 0
    rated: int = 0
    right: int = 0

    def add(self, event: Event) -> None:
        """Count an event that was learned."""
        self.events += 1
        if event.choice is not None and event.kind in ("label", "correction", "reward"):
            self.rated += 1
            if self.counts_right:
                self.right += is_positive(event.reward) if event.kind == "reward" else event.choice == event.label

    def load(self, metrics: dict[str, float]) -> None:
        """Continue from the counts in a manifest's metrics."""
        self.events, self.rated, self.right = (int(metrics.get(name, 0)) for name in ("events", "rated", "right"))

    def as_metrics(self) -> dict[str, float]:
        """Return the inverse of `load`."""
        metrics: dict[str, float] = {"events": self.events, "rated": self.rated}
        return {**metrics, "right": self.right} if self.counts_right else metrics
