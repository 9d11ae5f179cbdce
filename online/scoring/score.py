"""The base of every score: the pending outcomes, the counts of served answers, and the protocol.

    prediction --> PendingOutcome: the answers of every predictor, at that moment
    event      --> Score.add: judges those predictors whose answer the event rates (see `prequential`)

The predictors: the model, what was served at the time, a frozen copy of the model, no-change (the
last class again), majority (the most frequent class so far; for numbers, their mean), and, where it runs beside the
candidate, a simple model that learns. All figures take bounded memory.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from online.models import Answer
from online.schemas.events import Event
from online.scoring.baseline_lead import Lead, LeadCounts
from online.scoring.confusion import Confusion
from online.scoring.prequential import Curve, CurveSegment, HitCounts

MAX_VERSIONS, MAX_USERS = 4_096, 100_000


MOST_FREQUENT = "majority"  # the baseline that always answers the most frequent class
LEARNED_BASELINE = "logistic"  # the kind of the model that may run beside the candidate (replay/baseline.py)


LATENESS = "lateness"  # in a curve: seconds from a feedback to the version that had learned it


Figures = dict[str, float | None]


BaselineAnswers = Mapping[str, Any]


Loss = tuple[int, float | None]  # offset of an outcome, and the model's loss; None if it does not judge the model


MAX_PAIRS = 2_048

Pair = tuple[float, float]  # the true number, and the predicted one


@dataclass(slots=True)
class NumberPairs:
    """Every `every`-th pair. `every` doubles, and each second pair is dropped, when there are MAX_PAIRS."""

    every: int = 1
    count: int = 0
    pairs: list[Pair] = field(default_factory=list)

    def add_all(self, pairs: Sequence[Pair]) -> None:
        """Add consecutive pairs; the result does not depend on how they are cut into chunks."""
        start = 0
        while start < len(pairs):
            first = start + -self.count % self.every  # the next one that is kept
            stop = min(len(pairs), first + self.every * (MAX_PAIRS - len(self.pairs)))
            self.pairs += pairs[first : stop : self.every]
            self.count, start = self.count + stop - start, stop
            if len(self.pairs) == MAX_PAIRS:
                self.pairs, self.every = self.pairs[::2], 2 * self.every


@dataclass(frozen=True, slots=True)
class ScoreDetails:
    """The details from which the figures are computed.

    versions: served version -> (rated, right). users: the number of ratings of each user. labels:
    class -> count, recall, precision. reliability: (count, mean probability, share right) of each bin. confusion: of a
    model that predicts classes. pairs: every `pairs_every`-th true and predicted number. affirmed: the answers whose right
    one is known because what was served got a positive reward.
    """

    curve: list[CurveSegment]
    versions: dict[int, tuple[int, int]]
    users: dict[str, int]
    labels: dict[str, dict[str, float]] = field(default_factory=dict)
    reliability: list[tuple[int, float, float]] = field(default_factory=list)
    confusion: Confusion | None = None
    pairs: list[Pair] = field(default_factory=list)
    pairs_every: int = 1
    affirmed: int = 0


@dataclass(slots=True)
class PendingOutcome:
    """The answers that an outcome will judge.

    served, version: of the answer that a caller got, if any. guesses: of the baselines. left: the
    number of outcomes still to come.
    """

    answer: Answer
    left: int
    guesses: BaselineAnswers
    frozen: Answer | None = None
    served: Answer | None = None
    version: int = 0
    user: str | None = None


@dataclass(slots=True)
class JudgedOutcomes:
    """Outcomes to score, in order: the events, and beside each what it judges, as columns.

    offsets, times: of the events. lateness: seconds until each was learned.
    """

    events: list[Event] = field(default_factory=list)
    outcomes: list[PendingOutcome] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)
    lateness: list[float | None] = field(default_factory=list)

    def append(
        self, event: Event, outcome: PendingOutcome, offset: int = 0, at: str | None = None, late: float | None = None
    ) -> None:
        """Append an outcome with what judges it. late: seconds from the answer to the feedback."""
        self.events.append(event)
        self.outcomes.append(outcome)
        self.offsets.append(offset)
        self.times.append(at)
        self.lateness.append(late)

    def extend(self, events: Sequence[Event], outcomes: Sequence[PendingOutcome], offsets: Sequence[int]) -> None:
        """Append events whose times are unknown."""
        self.events += events
        self.outcomes += outcomes
        self.offsets += offsets
        self.times += [None] * len(events)
        self.lateness += [None] * len(events)


class Score(Protocol):
    """The interface of scores, which a replay and a live model count alike."""

    curve: Curve

    def observe(self, label: str) -> None:
        """Show the right answer to the baselines. Raises ValueError for one that is impossible."""

    def guesses(self) -> BaselineAnswers:
        """Return what the baselines would answer now."""

    def add_all(self, judged: JudgedOutcomes) -> list[float | None]:
        """Return the model's loss by each outcome; None where the outcome does not judge it."""

    def figures(self) -> Figures:
        """Return the figures by name; None for one of which nothing was judged."""

    def leads(self) -> list[Lead]:
        """Return how far each baseline is ahead of the model."""

    def details(self) -> ScoreDetails:
        """Return what the figures are computed from."""


@dataclass(slots=True)
class ServedScore:
    """Counts every rated answer that was served, as the service counts it."""

    hits: HitCounts = field(default_factory=HitCounts)
    stride: int = 1
    versions: dict[int, HitCounts] = field(default_factory=dict)
    users: Counter[str] = field(default_factory=Counter)

    def add(self, right: bool, outcome: PendingOutcome) -> None:
        """Count a served answer that was judged."""
        if outcome.served is None or outcome.served.choice is None:
            return
        self.hits.add(right)
        self.versions.setdefault(outcome.version // self.stride * self.stride, HitCounts()).add(right)
        if len(self.versions) > MAX_VERSIONS:
            self._widen()
        if outcome.user is not None:
            known = outcome.user in self.users or len(self.users) < MAX_USERS
            self.users[outcome.user if known else "(others)"] += 1

    def counts(self) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
        """Return (judged, right) by groups of versions, and the number of answers by user."""
        versions = {version: (hits.judged, hits.right) for version, hits in sorted(self.versions.items())}
        return versions, dict(self.users.most_common())

    def _widen(self) -> None:
        self.stride *= 2
        before, self.versions = self.versions, {}
        for version, hits in before.items():
            into = self.versions.setdefault(version // self.stride * self.stride, HitCounts())
            into.judged, into.right = into.judged + hits.judged, into.right + hits.right


def collect_leads(counts: Mapping[str, LeadCounts]) -> list[Lead]:
    """counts: by baseline. Those without a pair are left out."""
    return [lead for name, each in counts.items() if (lead := each.lead(name)) is not None]


Scores = dict[str, list[float | None]]


def add_lateness(scores: Scores, judged: JudgedOutcomes) -> Scores:
    """Return the scores of predictors together with the lateness of the events, where any is known."""
    known = any(late is not None for late in judged.lateness)
    return {**scores, LATENESS: judged.lateness} if known else scores
