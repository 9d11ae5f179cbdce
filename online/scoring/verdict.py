"""The verdict on a live model: one status, and the reasons for it, worst first, each a code and its figures.

Facts --assess--> Verdict   no words: each page, report and message has its own for a reason

needs_attention      a person should decide something now
not_learning         the answers are as good as before, but feedback is not learned now
too_little_feedback  too few answers were judged, or are counted yet, for a verdict
good                 none of these; the reasons that are left are notices, and "declining" or "recovering" is said with the status
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from online.schemas.fields import Cause
from online.scoring.falls import Decline, Fall, GuesserLead
from online.scoring.recent_outcomes import OutcomeSpan

Status = Literal["good", "needs_attention", "not_learning", "too_little_feedback"]
Level = Literal["attention", "not_learning", "unknown", "notice"]
Figures = Mapping[str, "float | int | str | Reason | None"]

ENOUGH = 30  # judged answers
REFUSED_SHARE = 0.1  # of the newest feedback, from which refusals need attention
PATIENCE_S = 30.0  # how long feedback may wait for the learner
UNCOUNTED = 2_000  # newest events that need not be counted yet
FRESH_ALARM = 1_000  # events after which a drift alarm is old news


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for a verdict. figures: the values in its sentence, by name."""

    code: str
    level: Level
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriftSummary:
    """The newest change that the drift detectors found: since when, where it was seen, what, and how many alarms it raised.

    since_at: when the first feedback from offset `since` on was given. is_over: whether errors are as rare again as before.
    """

    since: int
    offset: int
    what: str
    alarms: int
    since_at: str | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class VerdictInputs:
    """The inputs of the verdict on a model. Each default means "nothing to report".

    recent: the last 100 judgements; those of `fall`, if there is one. rated: how many were considered. learner: as in LearnerState. waiting_s: how long the oldest
    feedback has waited that is not learned. newest: the live version, or after a roll back the newest one. previous: the
    version that was live before the roll back in force; 0: unknown. older: the newest version from before the fall. held_until: of a roll back in force, what the newest version had learned then; only a version that
    has learned more goes live by itself. since_held: the judgements since. recovery: the judgements since the last roll back, in force
    or not, if they are as good again as those before the fall or the decline. rejected: how many snapshots in a row the gate has refused since the live version, from which offset
    on. fall_at, quarantine_at, rejected_at: when the first feedback from there on was given. refused: how many of the newest `refused_of` events could not be learned. counted_until: the offset up to which the ratings
    are counted; None: all.
    """

    numbers: bool = False
    recent: OutcomeSpan | None = None
    rated: int = 0
    fall: Fall | None = None
    fall_at: str | None = None
    decline: Decline | None = None
    lead: GuesserLead | None = None
    learner: str = "running"
    learner_reason: str | None = None
    learner_cause: Cause | None = None
    live: int = 0
    newest: int = 0
    previous: int = 0
    older: int | None = None
    held_until: int = 0
    since_held: OutcomeSpan | None = None
    recovery: OutcomeSpan | None = None
    head: int = 0
    learned_until: int = 0
    waiting_s: float = 0.0
    frozen_since: str | None = None
    frozen_reason: str = ""
    frozen_cause: Cause | None = None
    quarantine_since: int | None = None
    quarantine_at: str | None = None
    rejected: int = 0
    rejected_since: int = 0
    rejected_at: str | None = None
    rejected_reason: str = ""
    refused: int = 0
    refused_of: int = 0
    drift: DriftSummary | None = None
    unservable: bool = False
    damaged: Sequence[int] = ()
    learning_again: str | None = None
    learning_again_cause: Cause | None = None
    missing_until: int = 0
    counted_until: int | None = None

    @property
    def is_counting(self) -> bool:
        """Whether older feedback is still being counted."""
        return self.counted_until is not None and self.counted_until < self.head - UNCOUNTED


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of a model, and the reasons for it, the worst first."""

    status: Status
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the reasons."""
        return tuple(reason.code for reason in self.reasons)


def assess(facts: VerdictInputs) -> Verdict:
    """Return the verdict on these facts. The same facts give the same verdict."""
    reasons = (*find_attention(facts), *find_idleness(facts), *find_doubts(facts), *find_notices(facts))
    levels = {reason.level for reason in reasons}
    status: Status = "good"
    if "attention" in levels:
        status = "needs_attention"
    elif "not_learning" in levels:
        status = "not_learning"
    elif facts.rated < ENOUGH or facts.is_counting:
        status = "too_little_feedback"
    return Verdict(status, reasons)


def find_attention(facts: VerdictInputs) -> Iterator[Reason]:
    """Yield the reasons that need attention."""
    if facts.fall is not None and facts.recovery is None:
        yield explain_fall(facts, facts.fall, "attention")
    if facts.unservable:
        yield Reason("unservable", "attention")
    if facts.quarantine_since is not None:
        figures: Figures = {
            "since": facts.quarantine_since,
            "since_at": facts.quarantine_at,
            "version": str(facts.live),
        }
        yield Reason("quarantine_open", "attention", figures)
    if facts.lead is not None:
        lead = facts.lead
        means = {"model": round(lead.model, 6), "other": round(lead.other, 6)}
        yield Reason("below_baseline", "attention", {"guesser": lead.guesser, "count": lead.count, **means})
    if facts.rejected:
        since: Figures = {"since": facts.rejected_since, "since_at": facts.rejected_at}
        figures = {"times": facts.rejected, **since, "reason": facts.rejected_reason}
        yield Reason("snapshots_rejected", "attention", figures)
    if facts.refused and facts.refused >= REFUSED_SHARE * facts.refused_of:
        yield Reason("much_refused", "attention", {"refused": facts.refused, "of": facts.refused_of})


def explain_fall(facts: VerdictInputs, fall: Fall, level: Level) -> Reason:
    """Return the reason of a fall, with the version to roll back to."""
    older = None if facts.older is None else str(facts.older)
    figures = {**compare(fall), "since": fall.since, "since_at": facts.fall_at, "roll_back_to": older}
    return Reason("error_rose" if facts.numbers else "accuracy_fell", level, figures)


def compare(change: Fall | Decline) -> Figures:
    """Return the figures of a fall or a decline."""
    before, after = change.before, change.after
    return {"before": round(before.mean, 6), "before_count": before.count, **summarize(after)}


def summarize(stretch: OutcomeSpan | None) -> Figures:
    """Return the figures of a span."""
    return {} if stretch is None else {"after": round(stretch.mean, 6), "count": stretch.count}


def find_idleness(facts: VerdictInputs) -> Iterator[Reason]:
    """Yield the reasons for which nothing is learned."""
    is_held = facts.frozen_since is not None
    if facts.learner == "stopped":
        yield Reason("learner_stopped", "not_learning", {"reason": facts.learner_reason})
    if facts.learner == "restarting":
        figures: Figures = {"reason": facts.learner_reason or "it ended", **name_cause(facts.learner_cause)}
        yield Reason("learner_restarting", "not_learning", figures)
    if is_held and facts.quarantine_since is None:
        figures = {"since": facts.frozen_since, "reason": facts.frozen_reason, **name_freeze_cause(facts.frozen_cause)}
        yield Reason("frozen", "not_learning", figures)
    if facts.learning_again is not None:
        figures = {"reason": facts.learning_again, **name_cause(facts.learning_again_cause)}
        yield Reason("learning_again", "not_learning", figures)
    behind = facts.head - facts.learned_until
    if behind > 0 and facts.waiting_s >= PATIENCE_S and not is_held:
        yield Reason("behind", "not_learning", {"events": behind, "waiting_s": round(facts.waiting_s)})


def name_cause(cause: Cause | None) -> Figures:
    """Return the code and the figures of a cause as figures."""
    return {} if cause is None else {"cause": cause.code, **cause.figures}


def name_freeze_cause(cause: Cause | None) -> Figures:
    """Return the same of a freeze, which has a `since` of its own: `cause_since` is the offset that the cause names."""
    figures = name_cause(cause)
    return {f"cause_{name}" if name in ("since", "reason") else name: value for name, value in figures.items()}


def find_doubts(facts: VerdictInputs) -> Iterator[Reason]:
    """Yield the reasons for which too little is known."""
    if facts.is_counting:
        yield Reason("still_counting", "unknown", {"counted": facts.counted_until or 0, "of": facts.head})
    elif facts.rated < ENOUGH:
        yield Reason("too_few_ratings", "unknown", {"rated": facts.rated, "enough": ENOUGH})


def find_notices(facts: VerdictInputs) -> Iterator[Reason]:
    """Yield the reasons that change nothing."""
    if facts.recovery is not None:
        yield Reason("recovering", "notice", summarize(facts.recovery))
        if facts.fall is not None:
            yield explain_fall(facts, facts.fall, "notice")
    if facts.decline is not None and facts.fall is None:
        yield Reason("declining", "notice", compare(facts.decline))
    if facts.live < facts.newest:
        yield explain_roll_back(facts)
    if facts.drift is not None and facts.head - facts.drift.offset < FRESH_ALARM:
        drift = facts.drift
        figures: Figures = {
            "since": drift.since,
            "since_at": drift.since_at,
            "offset": drift.offset,
            "what": drift.what,
            "alarms": drift.alarms,
        }
        yield Reason("drift_over" if drift.is_over else "drift", "notice", figures)
    if 0 < facts.refused < REFUSED_SHARE * facts.refused_of:
        yield Reason("some_refused", "notice", {"refused": facts.refused, "of": facts.refused_of})
    if facts.damaged:
        yield Reason("version_damaged", "notice", {"versions": ", ".join(map(str, facts.damaged))})
    if facts.missing_until:
        yield Reason("events_expired", "notice", {"until": facts.missing_until})


def explain_roll_back(facts: VerdictInputs) -> Reason:
    """Explain what it is, and how good the answers judged since are: whether it helped."""
    figures = {"version": str(facts.live), "newest": str(facts.newest)}
    since: Figures = {"since": facts.held_until} if facts.held_until else {}
    previous: Figures = {"previous": str(facts.previous)} if facts.previous else {}
    return Reason("rolled_back", "notice", {**figures, **since, **previous, **summarize(facts.since_held)})
