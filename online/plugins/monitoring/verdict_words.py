"""The verdict on a live model in English sentences: what the API and the webhooks say of it, beside its codes and figures.

The means in a sentence are those of the facts: the figures of a reason are rounded.
"""

from collections.abc import Callable, Mapping

from online.scoring.recent_outcomes import OutcomeSpan
from online.scoring.verdict import Figures, Reason, Status, Verdict, VerdictInputs

TITLES: Mapping[Status, str] = {
    "good": "Good",
    "needs_attention": "Needs attention",
    "not_learning": "Not learning",
    "too_little_feedback": "Cannot judge yet",
}
LEVELS: Mapping[Status, str] = {  # of the reason that decides
    "needs_attention": "attention",
    "not_learning": "not_learning",
    "too_little_feedback": "unknown",
}
GUESSERS = {
    "no_change": "repeats the last outcome",
    "majority": "always says the most frequent class",
    "mean": "always says the mean",
}


def word_verdict(verdict: Verdict, facts: VerdictInputs) -> str:
    """Return one sentence: the status, and the reason that decides."""
    title = TITLES[verdict.status]
    if verdict.status == "good" and facts.recovery is not None:
        return f"Recovering: {word_recovery(facts)}."
    if verdict.status == "good" and facts.recent is not None:
        if "declining" in verdict.codes:
            return f"{title}, but {'with growing errors' if facts.numbers else 'falling'}: {word_decline(facts)}."
        return f"{title}: {word_recent(facts, facts.recent)}."
    first = next((reason for reason in verdict.reasons if LEVELS.get(verdict.status) == reason.level), None)
    return f"{title}: {word_reason(first, facts)}." if first else f"{title}."


def word_reason(reason: Reason, facts: VerdictInputs) -> str:
    """Return the sentence of a reason."""
    words = SENTENCES[reason.code]
    return words.format(**reason.figures) if isinstance(words, str) else words(facts, reason.figures)


def word_recent(facts: VerdictInputs, recent: OutcomeSpan) -> str:
    """Return the sentence about the newest answers."""
    whose = f" of version {facts.live} and older ones" if facts.live < facts.newest else ""
    if facts.numbers:
        return f"the mean error of the last {recent.count:,} answers{whose} is {recent.mean:.4g}"
    return f"{percent(recent.mean)} of the last {recent.count:,} judged answers{whose} were right"


def word_fall(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about a fall."""
    assert facts.fall is not None
    before, after = facts.fall.before, facts.fall.after
    subject, event = f"of the last {after.count:,} answers", f"after event {facts.fall.since:,}"
    if facts.numbers:
        return f"the mean error {subject} rose from {before.mean:.4g} to {after.mean:.4g} {event}"
    return f"accuracy {subject} fell from {percent(before.mean)} to {percent(after.mean)} {event}"


def word_lead(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about a baseline that is better."""
    lead = facts.lead
    assert lead is not None
    compared = f"{percent(lead.other)} right, the model {percent(lead.model)}"
    if facts.numbers:
        compared = f"mean error {lead.other:.4g}, the model {lead.model:.4g}"
    return f"a guesser that {GUESSERS[lead.guesser]} is better on the last {lead.count:,} answers: {compared}"


def word_decline(facts: VerdictInputs, figures: Figures | None = None) -> str:
    """Return the sentence about a decline."""
    assert facts.decline is not None
    before, after = facts.decline.before, facts.decline.after
    if facts.numbers:
        what = f"the mean error of the last {after.count:,} answers is {after.mean:.4g}, of the {before.count:,} before"
        return f"{what} {before.mean:.4g}"
    what = f"{percent(after.mean)} of the last {after.count:,} judged answers were right"
    return f"{what}, {percent(before.mean)} of the {before.count:,} before"


def word_recovery(facts: VerdictInputs, figures: Figures | None = None) -> str:
    """Return the sentence about a recovery."""
    assert facts.recovery is not None
    return word_answers(facts, facts.recovery, "judged since the roll back")


def word_roll_back(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about a roll back."""
    what = f"it was rolled back: version {facts.live} answers, and version {facts.newest} is the newest"
    return f"{what}; {word_answers(facts, facts.since_held, 'judged since')}" if facts.since_held is not None else what


def word_answers(facts: VerdictInputs, answers: OutcomeSpan, judged: str) -> str:
    """Return the phrase with the figure of some answers."""
    count, mean = answers.count, answers.mean
    if facts.numbers:
        return f"the mean error of the {count:,} answers {judged} is {mean:.4g}"
    return f"{round(mean * count):,} of the {count:,} answers {judged} were right"


def word_freeze(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about frozen learning."""
    return f"learning is frozen{f': {facts.frozen_reason}' if facts.frozen_reason else ''}"


def word_delay(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about feedback that waits."""
    behind, waited = facts.head - facts.learned_until, describe_duration(facts.waiting_s)
    return f"{behind:,} events are not learned yet; the oldest waits for {waited}"


def word_drift(facts: VerdictInputs, figures: Figures) -> str:
    """Return the sentence about drift."""
    assert facts.drift is not None
    after = f"after event {facts.drift.since - 1:,}"
    if facts.drift.is_over:
        return f"errors were more frequent for a while {after}; they are as rare as before"
    what = "the inputs changed" if facts.drift.what == "features" else "errors became more frequent"
    return f"{what} {after}"


SENTENCES: Mapping[str, str | Callable[[VerdictInputs, Figures], str]] = {
    "accuracy_fell": word_fall,
    "error_rose": word_fall,
    "below_baseline": word_lead,
    "quarantine_open": "the guard rolled it back; decide about the feedback since event {since:,}",
    "unservable": "none of its versions can be loaded",
    "snapshots_rejected": "the gate has refused what was learned since event {since:,}: {reason}",
    "much_refused": "{refused:,} of the last {of:,} events could not be learned",
    "learner_stopped": "the learner does not run",
    "learner_restarting": lambda facts, figures: f"the learner restarts: {facts.learner_reason or 'it ended'}",
    "behind": word_delay,
    "frozen": word_freeze,
    "learning_again": lambda facts, figures: f"it learns its log again: {facts.learning_again}",
    "declining": word_decline,
    "recovering": word_recovery,
    "rolled_back": word_roll_back,
    "drift": word_drift,
    "drift_over": word_drift,
    "some_refused": "{refused:,} of the last {of:,} events could not be learned",
    "version_damaged": "cannot be loaded: version {versions}",
    "events_expired": "events up to {until:,} had expired before they could be learned",
    "too_few_ratings": "a verdict needs {enough} judged answers to requests, and there are {rated} so far",
    "still_counting": "{counted:,} of {of:,} events are counted so far",
}


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %"


def describe_duration(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
