"""The fall of a model's accuracy that a report names, with one begin for it and the drift alarms of the same change.

learning curve --find_fall-->  fall   --+
                                        +--join_fall--> the earlier begin, in the verdict and in the table of alarms
drift alarms --group_alarms--> changes -+
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from online.evaluation.replay.replay_report import ReplayReport
from online.learning.drift import Alarm
from online.scoring.accuracy_falls import Fall, find_fall
from online.scoring.drift_changes import QUIET, DriftChange, group_alarms, join_fall
from online.scoring.prequential import CurveSegment


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive judged answers, and their accuracy."""

    count: int
    mean: float


@dataclass(frozen=True, slots=True)
class Begin:
    """What `join_fall` uses of a fall. since: the offset of the last event before it."""

    since: int
    before: Stretch
    after: Stretch


@dataclass(frozen=True, slots=True)
class CurveOutcomes:
    """The answers of a predictor along a learning curve."""

    curve: Sequence[CurveSegment]
    predictor: str
    numbers: bool = False

    def between(self, after: int, until: int) -> Stretch | None:
        found = [each for each in self.curve if after < each.offset <= until and each.counts.get(self.predictor)]
        count = sum(each.counts[self.predictor] for each in found)
        return Stretch(count, sum(each.sums[self.predictor] for each in found) / count) if count else None


@dataclass(frozen=True, slots=True)
class NoticedFall:
    """A fall that a reader must know of. begin: the event with which it began.

    served_answer: how many answers of the service had been judged by then, that one included, as its learning page counts
    them; None where that is not known, or the same number. changes: all changes that raised an alarm; those of the fall
    have its begin. is_noticed: whether there are any of the fall.
    """

    fall: Fall
    begin: int
    served_answer: int | None
    changes: list[DriftChange[Alarm]]
    is_noticed: bool


def find_noticed_fall(report: ReplayReport) -> NoticedFall | None:
    """Return the fall of a model's accuracy; None for numbers, and if there is none that matters."""
    curve = report.details.curve
    fall = None if "mae" in report.figures else find_fall(curve)
    if fall is None or not fall.matters:
        return None
    changes = group_alarms(report.drift)
    near = [change for change in changes if change.since <= min(fall.offset + QUIET, fall.until or change.since)]
    found = Begin(fall.offset, Stretch(1, fall.before), Stretch(1, fall.after))
    observed = "model" if report.same_answers is None else "served"  # whose answers the detectors observe
    joined, near = join_fall(found, near, CurveOutcomes(curve, observed))
    assert joined is not None, "a fall stays one"
    known = {change.alarms: change for change in near}
    begin = joined.since + 1
    number = count_served(report, begin)
    return NoticedFall(
        replace(fall, offset=joined.since),
        begin,
        None if number == begin else number,
        [known.get(change.alarms, change) for change in changes],
        any(change.began is not None for change in near),
    )


def count_served(report: ReplayReport, offset: int) -> int | None:
    """Count the judged answers of a service up to an event, that one included.

    None if that is not known: of another model or a part of a log, and where the curve does not say which events in between
    judged one.
    """
    if report.same_answers is None or report.contents_from:
        return None
    total = before = 0
    for segment in report.details.curve:
        count = segment.counts.get("served", 0)
        if segment.offset >= offset:
            is_each = count == segment.offset - before
            return total + offset - before if is_each else None
        total, before = total + count, segment.offset
    return None


def list_begins(report: ReplayReport) -> list[int]:
    """Return the event with which the change of each alarm began, as the verdict says it."""
    found = find_noticed_fall(report)
    begins = {alarm: each.began for each in (found.changes if found else ()) for alarm in each.alarms}
    return [begins.get(alarm) or alarm.since for alarm in report.drift]
