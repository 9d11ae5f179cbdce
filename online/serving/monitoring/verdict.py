"""The verdict on a model: one status, and the reasons for it, worst first.

Facts --assess--> Verdict   no I/O: health.py gathers the facts, the API and the webhooks send the verdict

needs_attention      a person should decide something now
not_learning         the answers are as good as before, but feedback is not learned now
too_little_feedback  too few answers were judged, or are counted yet, for a verdict
good                 none of these; the reasons that are left are notices, and "declining" or "recovering" is said with the status
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from online.schemas.fields import Cause
from online.scoring.falls import Decline, Fall, GuesserLead
from online.scoring.recent_outcomes import Stretch

Status = Literal["good", "needs_attention", "not_learning", "too_little_feedback"]
Level = Literal["attention", "not_learning", "unknown", "notice"]
Code = Literal[
    "accuracy_fell",
    "error_rose",
    "below_baseline",
    "quarantine_open",
    "unservable",
    "snapshots_rejected",
    "much_refused",
    "learner_stopped",
    "learner_restarting",
    "behind",
    "frozen",
    "learning_again",
    "declining",
    "recovering",
    "rolled_back",
    "drift",
    "drift_over",
    "some_refused",
    "version_damaged",
    "events_expired",
    "too_few_ratings",
    "still_counting",
]
Figures = Mapping[str, float | int | str | None]

ENOUGH = 30  # judged answers
REFUSED_SHARE = 0.1  # of the newest feedback, from which refusals need attention
PATIENCE_S = 30.0  # how long feedback may wait for the learner
UNCOUNTED = 2_000  # newest events that need not be counted yet
FRESH_ALARM = 1_000  # events after which a drift alarm is old news


@dataclass(frozen=True, slots=True)
class DriftNews:
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
class Facts:
    """What is known about a model now. Everything has a value that is no reason for anything.

    recent: the last 100 judgements; those of `fall`, if there is one. rated: how many were considered. learner: as in LearnerState. waiting_s: how long the oldest
    feedback has waited that is not learned. newest: the live version, or after a roll back the newest one. previous: the
    version that was live before the roll back in force; 0: unknown. older: the newest version from before the fall. held_until: of a roll back in force, what the newest version had learned then; only a version that
    has learned more goes live by itself. since_held: the judgements since. recovery: the judgements since the last roll back, in force
    or not, if they are as good again as those before the fall or the decline. rejected: how many snapshots in a row the gate has refused since the live version, from which offset
    on. fall_at, quarantine_at, rejected_at: when the first feedback from there on was given. refused: how many of the newest `refused_of` events could not be learned. counted_until: the offset up to which the ratings
    are counted; None: all.
    """

    numbers: bool = False
    recent: Stretch | None = None
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
    since_held: Stretch | None = None
    recovery: Stretch | None = None
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
    drift: DriftNews | None = None
    unservable: bool = False
    damaged: Sequence[int] = ()
    learning_again: str | None = None
    learning_again_cause: Cause | None = None
    missing_until: int = 0
    counted_until: int | None = None

    @property
    def is_counting(self) -> bool:
        return self.counted_until is not None and self.counted_until < self.head - UNCOUNTED


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the status is what it is. figures: what a sentence about it needs, by name. sentence: in English."""

    code: Code
    level: Level
    sentence: str
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    sentence: str
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[Code, ...]:
        return tuple(reason.code for reason in self.reasons)


TITLES: dict[Status, str] = {
    "good": "Good",
    "needs_attention": "Needs attention",
    "not_learning": "Not learning",
    "too_little_feedback": "Cannot judge yet",
}

LEVELS: dict[Status, Level] = {  # of the reason that decides
    "needs_attention": "attention",
    "not_learning": "not_learning",
    "too_little_feedback": "unknown",
}


def assess(facts: Facts) -> Verdict:
    """The verdict on these facts. The same facts give the same verdict."""
    reasons = (*find_attention(facts), *find_idleness(facts), *find_doubts(facts), *find_notices(facts))
    levels = {reason.level for reason in reasons}
    status: Status = "good"
    if "attention" in levels:
        status = "needs_attention"
    elif "not_learning" in levels:
        status = "not_learning"
    elif facts.rated < ENOUGH or facts.is_counting:
        status = "too_little_feedback"
    return Verdict(status, describe(status, facts, reasons), reasons)


def describe(status: Status, facts: Facts, reasons: Sequence[Reason]) -> str:
    if status == "good" and facts.recovery is not None:
        return f"Recovering: {describe_recovery(facts, facts.recovery)}."
    if status == "good" and facts.recent is not None:
        declining = next((reason for reason in reasons if reason.code == "declining"), None)
        if declining is not None:
            return (
                f"{TITLES[status]}, but {'with growing errors' if facts.numbers else 'falling'}: {declining.sentence}."
            )
        return f"{TITLES[status]}: {describe_recent(facts)}."
    first = next((reason for reason in reasons if LEVELS.get(status) == reason.level), None)
    return f"{TITLES[status]}: {first.sentence}." if first else f"{TITLES[status]}."


def describe_recent(facts: Facts) -> str:
    assert facts.recent is not None
    count, mean = facts.recent.count, facts.recent.mean
    whose = f" of version {facts.live} and older ones" if facts.live < facts.newest else ""
    return (
        f"the mean error of the last {count:,} answers{whose} is {mean:.4g}"
        if facts.numbers
        else f"{percent(mean)} of the last {count:,} judged answers{whose} were right"
    )


def find_attention(facts: Facts) -> Iterator[Reason]:
    if facts.fall is not None and facts.recovery is None:
        yield explain_fall(facts, facts.fall)
    if facts.unservable:
        yield Reason("unservable", "attention", "none of its versions can be loaded")
    if facts.quarantine_since is not None:
        yield Reason(
            "quarantine_open",
            "attention",
            f"the guard rolled it back; decide about the feedback since event {facts.quarantine_since:,}",
            {"since": facts.quarantine_since, "since_at": facts.quarantine_at, "version": str(facts.live)},
        )
    if facts.lead is not None:
        yield explain_lead(facts, facts.lead)
    if facts.rejected:
        yield Reason(
            "snapshots_rejected",
            "attention",
            f"the gate has refused what was learned since event {facts.rejected_since:,}: {facts.rejected_reason}",
            {
                "times": facts.rejected,
                "since": facts.rejected_since,
                "since_at": facts.rejected_at,
                "reason": facts.rejected_reason,
            },
        )
    if facts.refused and facts.refused >= REFUSED_SHARE * facts.refused_of:
        yield explain_refusals(facts, "much_refused", "attention")


def explain_fall(facts: Facts, fall: Fall) -> Reason:
    before, after = fall.before, fall.after
    figures: Figures = {
        "before": round(before.mean, 6),
        "before_count": before.count,
        "after": round(after.mean, 6),
        "count": after.count,
        "since": fall.since,
        "since_at": facts.fall_at,
        "roll_back_to": None if facts.older is None else str(facts.older),
    }
    subject = f"of the last {after.count:,} answers"
    if facts.numbers:
        what = f"the mean error {subject} rose from {before.mean:.4g} to {after.mean:.4g}"
    else:
        what = f"accuracy {subject} fell from {percent(before.mean)} to {percent(after.mean)}"
    code: Code = "error_rose" if facts.numbers else "accuracy_fell"
    return Reason(code, "attention", f"{what} after event {fall.since:,}", figures)


def explain_decline(facts: Facts, decline: Decline) -> Reason:
    before, after = decline.before, decline.after
    figures: Figures = {
        "before": round(before.mean, 6),
        "before_count": before.count,
        "after": round(after.mean, 6),
        "count": after.count,
    }
    if facts.numbers:
        what = f"the mean error of the last {after.count:,} answers is {after.mean:.4g}, of the {before.count:,} before"
        return Reason("declining", "notice", f"{what} {before.mean:.4g}", figures)
    what = f"{percent(after.mean)} of the last {after.count:,} judged answers were right"
    return Reason("declining", "notice", f"{what}, {percent(before.mean)} of the {before.count:,} before", figures)


def explain_recovery(facts: Facts, since: Stretch) -> Reason:
    figures: Figures = {"after": round(since.mean, 6), "count": since.count}
    return Reason("recovering", "notice", describe_recovery(facts, since), figures)


def describe_recovery(facts: Facts, since: Stretch) -> str:
    count, mean = since.count, since.mean
    if facts.numbers:
        return f"the mean error of the {count:,} answers judged since the roll back is {mean:.4g}"
    return f"{round(mean * count):,} of the {count:,} answers judged since the roll back were right"


def explain_roll_back(facts: Facts) -> Reason:
    """What it is, and how good the answers judged since are: whether it helped."""
    figures: dict[str, float | int | str | None] = {"version": str(facts.live), "newest": str(facts.newest)}
    what = f"it was rolled back: version {facts.live} answers, and version {facts.newest} is the newest"
    if facts.held_until:
        figures["since"] = facts.held_until
    if facts.previous:
        figures["previous"] = str(facts.previous)
    if facts.since_held is None:
        return Reason("rolled_back", "notice", what, figures)
    count, mean = facts.since_held.count, facts.since_held.mean
    figures |= {"after": round(mean, 6), "count": count}
    if facts.numbers:
        helped = f"the mean error of the {count:,} answers judged since is {mean:.4g}"
    else:
        helped = f"{round(mean * count):,} of the {count:,} answers judged since were right"
    return Reason("rolled_back", "notice", f"{what}; {helped}", figures)


GUESSERS = {
    "no_change": "repeats the last outcome",
    "majority": "always says the most frequent class",
    "mean": "always says the mean",
}


def explain_lead(facts: Facts, lead: GuesserLead) -> Reason:
    if facts.numbers:
        compared = f"mean error {lead.other:.4g}, the model {lead.model:.4g}"
    else:
        compared = f"{percent(lead.other)} right, the model {percent(lead.model)}"
    figures: Figures = {
        "guesser": lead.guesser,
        "count": lead.count,
        "model": round(lead.model, 6),
        "other": round(lead.other, 6),
    }
    sentence = f"a guesser that {GUESSERS[lead.guesser]} is better on the last {lead.count:,} answers: {compared}"
    return Reason("below_baseline", "attention", sentence, figures)


def explain_refusals(facts: Facts, code: Code, level: Level) -> Reason:
    sentence = f"{facts.refused:,} of the last {facts.refused_of:,} events could not be learned"
    return Reason(code, level, sentence, {"refused": facts.refused, "of": facts.refused_of})


def find_idleness(facts: Facts) -> Iterator[Reason]:
    is_held = facts.frozen_since is not None
    if facts.learner == "stopped":
        yield Reason("learner_stopped", "not_learning", "the learner does not run", {"reason": facts.learner_reason})
    if facts.learner == "restarting":
        reason = facts.learner_reason or "it ended"
        yield Reason(
            "learner_restarting",
            "not_learning",
            f"the learner restarts: {reason}",
            {"reason": reason, **name_cause(facts.learner_cause)},
        )
    if is_held and facts.quarantine_since is None:
        because = f": {facts.frozen_reason}" if facts.frozen_reason else ""
        yield Reason(
            "frozen",
            "not_learning",
            f"learning is frozen{because}",
            {"since": facts.frozen_since, "reason": facts.frozen_reason, **name_freeze_cause(facts.frozen_cause)},
        )
    if facts.learning_again is not None:
        sentence = f"it learns its log again: {facts.learning_again}"
        yield Reason(
            "learning_again",
            "not_learning",
            sentence,
            {"reason": facts.learning_again, **name_cause(facts.learning_again_cause)},
        )
    behind = facts.head - facts.learned_until
    if behind > 0 and facts.waiting_s >= PATIENCE_S and not is_held:
        yield Reason(
            "behind",
            "not_learning",
            f"{behind:,} events are not learned yet; the oldest waits for {describe_duration(facts.waiting_s)}",
            {"events": behind, "waiting_s": round(facts.waiting_s)},
        )


def name_cause(cause: Cause | None) -> Figures:
    """Return the code and the figures of a cause as figures."""
    return {} if cause is None else {"cause": cause.code, **cause.figures}


def name_freeze_cause(cause: Cause | None) -> Figures:
    """The same of a freeze, which has a `since` of its own: `cause_since` is the offset that the cause names."""
    figures = name_cause(cause)
    return {f"cause_{name}" if name in ("since", "reason") else name: value for name, value in figures.items()}


def find_doubts(facts: Facts) -> Iterator[Reason]:
    if facts.is_counting:
        counted = facts.counted_until or 0
        sentence = f"{counted:,} of {facts.head:,} events are counted so far"
        yield Reason("still_counting", "unknown", sentence, {"counted": counted, "of": facts.head})
    elif facts.rated < ENOUGH:
        sentence = f"a verdict needs {ENOUGH} judged answers to requests, and there are {facts.rated} so far"
        yield Reason("too_few_ratings", "unknown", sentence, {"rated": facts.rated, "enough": ENOUGH})


def find_notices(facts: Facts) -> Iterator[Reason]:
    if facts.recovery is not None:
        yield explain_recovery(facts, facts.recovery)
        if facts.fall is not None:
            yield replace(explain_fall(facts, facts.fall), level="notice")
    if facts.decline is not None and facts.fall is None:
        yield explain_decline(facts, facts.decline)
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
        after = f"after event {drift.since - 1:,}"
        what = "the inputs changed" if drift.what == "features" else "errors became more frequent"
        over = f"errors were more frequent for a while {after}; they are as rare as before"
        yield (
            Reason("drift_over", "notice", over, figures)
            if drift.is_over
            else Reason("drift", "notice", f"{what} {after}", figures)
        )
    if 0 < facts.refused < REFUSED_SHARE * facts.refused_of:
        yield explain_refusals(facts, "some_refused", "notice")
    if facts.damaged:
        listed = ", ".join(map(str, facts.damaged))
        yield Reason("version_damaged", "notice", f"cannot be loaded: version {listed}", {"versions": listed})
    if facts.missing_until:
        sentence = f"events up to {facts.missing_until:,} had expired before they could be learned"
        yield Reason("events_expired", "notice", sentence, {"until": facts.missing_until})


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def describe_duration(seconds: float) -> str:
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
