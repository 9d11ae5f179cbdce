"""Observations of a model and of the service, each as a state: a changed state is worth an alert.

verdict    status, and what needs attention     settled: noticed twice in a row
quarantine the open one, with a roll back or not
drift      the newest change
learner    whether it runs                      settled
disk       whether it is nearly full            settled
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from online.plugins.monitoring.health import ModelHealth
from online.plugins.monitoring.verdict_words import word_verdict
from online.schemas.json_values import JSON
from online.schemas.models import LearnerState
from online.scoring.verdict import VerdictInputs, assess
from online.serving.disk_space import DiskSpace
from online.store.quarantine import QuarantineRow

EventName = Literal["verdict", "rollback", "quarantine", "drift", "learner", "disk", "test"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One state now. model: "" for the service. key: under which the state is kept. sentence: what is said of it; None where
    a change to it is no news.

    is_alarming: whether it is news although nothing was noticed before. is_settled: False where it may be gone in a moment.
    """

    model: str
    event: EventName
    key: str
    state: str
    sentence: str | None = None
    figures: Mapping[str, JSON] = field(default_factory=dict)
    is_alarming: bool = False
    is_settled: bool = True


def observe_model(model: str, health: ModelHealth, quarantine: QuarantineRow | None) -> Iterator[Observation]:
    """Yield the states of a model that are watched."""
    yield observe_verdict(model, health.facts)
    yield observe_quarantine(model, quarantine)
    yield observe_drift(model, health.facts)


def observe_verdict(model: str, facts: VerdictInputs) -> Observation:
    """Return whether there is enough feedback to judge is no news. The learner, which runs on one server, is observed there."""
    running = replace(facts, learner="running", learner_reason=None)
    verdict = assess(running)
    attention = sorted(reason.code for reason in verdict.reasons if reason.level == "attention")
    is_fine = verdict.status in ("good", "too_little_feedback")
    state = "fine" if is_fine else ":".join([verdict.status, *attention])
    figures = {
        "status": verdict.status,
        "reasons": [{"code": each.code, **each.figures} for each in verdict.reasons if each.level != "unknown"],
        "version": str(facts.live),
    }
    return Observation(
        model, "verdict", "verdict", state, word_verdict(verdict, running), figures, not is_fine, is_settled=False
    )


def observe_quarantine(model: str, row: QuarantineRow | None) -> Observation:
    """That a person has ended it is no news."""
    if row is None:
        return Observation(model, "quarantine", "quarantine", "")
    figures = {"since": row.since, "reason": row.reason, "rolled_back_to": row.rolled_back_to}
    waits = f"The feedback since event {row.since:,} waits for your decision."
    if row.rolled_back_to is None:
        sentence = f"The guard has stopped learning: {row.reason}. {waits}"
        return Observation(model, "quarantine", "quarantine", str(row.offset), sentence, figures)
    sentence = f"The guard rolled back to version {row.rolled_back_to}: {row.reason}. {waits}"
    return Observation(model, "rollback", "quarantine", str(row.offset), sentence, figures)


def observe_drift(model: str, facts: VerdictInputs) -> Observation:
    """Return whether the drift detectors see a change."""
    drift = facts.drift
    if drift is None:
        return Observation(model, "drift", "drift", "")
    what = "The inputs changed" if drift.what == "features" else "Errors became more frequent"
    figures = {"since": drift.since, "offset": drift.offset, "what": drift.what}
    return Observation(model, "drift", "drift", str(drift.offset), f"{what} after event {drift.since - 1:,}.", figures)


def observe_learner(learner: LearnerState, host: str, replica: str = "") -> Observation:
    """Return whether the learner runs. replica: whose learner it is, where others that share the store have their own."""
    is_up = learner.state == "running"
    because = f": {learner.reason}" if learner.reason else ""
    what, key = (f"The learner on {host}", f"learner@{replica}") if replica else ("The learner", "learner")
    sentence = f"{what} runs again." if is_up else f"{what} does not run{because}."
    figures = {"state": learner.state, **({"host": host, "replica": replica} if replica else {})}
    return Observation(
        "", "learner", key, "running" if is_up else "down", sentence, figures, not is_up, is_settled=False
    )


def observe_disk(disk: DiskSpace, host: str) -> Observation:
    """host: of the disk, which other servers do not have."""
    state = "short" if disk.is_short else "enough"
    sentence = f"On {host}, {disk.reason}." if disk.is_short else f"On {host}, the disk has enough free space again."
    figures = {"host": host}
    return Observation("", "disk", f"disk@{host}", state, sentence, figures, disk.is_short, is_settled=False)
