"""Groups drift alarms by the change that they stem from: detectors and classes raise many alarms of one.

alarms --group_alarms--> changes --+
                                   +--join_fall--> one begin for what is one event
a fall of the accuracy ------------+

A service and a replay say the same begin, each of its own alarms, answers and fall.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from online.scoring.falls import Decline, Fall, PastFall, find_past_fall
from online.scoring.prequential import CurveSegment
from online.scoring.recent_outcomes import OutcomeBlock, OutcomeSpan, RecentOutcomes, count_curve, summarize_blocks

QUIET = 500  # events without an alarm after which the next one is of another change
MIN_RECOVERY = 30  # answers between an alarm and a fall that show whether the model had recovered
MAX_EXCESS = 0.05  # rate of errors by which the newest answers may exceed the one before a change that is over
MIN_WORSE = 0.25  # of the size of a fall, by which the answers before it are worse if it began with them

AlarmKind = Literal["loss", "class", "features"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change that a drift detector found.

    offset: of the entry that raised it. label: the class, for a change of one class. projection: the
    direction, for a change of features. since: the offset near which the change began. before, after:
    the mean loss, or the mean along the direction. size: after - before, or the Kolmogorov-Smirnov
    distance for features. window: the number of entries since the change.
    """

    offset: int
    what: AlarmKind
    label: str | None
    projection: int | None
    since: int
    before: float
    after: float
    size: float
    window: int


@dataclass(frozen=True, slots=True)
class AlarmGroup:
    """The alarms of one change, oldest first. They are never none. began: of the event that a fall and this change are."""

    alarms: tuple[Alarm, ...]
    began: int | None = None

    @property
    def since(self) -> int:
        """The offset near which the change began: of its event, or else as the detector that saw it first has it."""
        return self.alarms[0].since if self.began is None else self.began

    @property
    def offset(self) -> int:
        """Of the feedback that raised the first alarm."""
        return self.alarms[0].offset

    @property
    def last(self) -> int:
        """Of the feedback that raised the last alarm."""
        return self.alarms[-1].offset

    @property
    def main(self) -> Alarm:
        """The alarm that says most: of all answers rather than of one class, and of answers rather than of inputs."""
        ranks = {"loss": 0, "class": 1, "features": 2}
        return min(self.alarms, key=lambda alarm: (ranks[alarm.what], alarm.offset))

    @property
    def losses(self) -> list[Alarm]:
        """The alarms of all answers together."""
        return [alarm for alarm in self.alarms if alarm.what == "loss"]

    def includes(self, alarm: Alarm) -> bool:
        """Return whether a later alarm is of this change: it follows soon, or began before this change was noticed."""
        return alarm.offset - self.last < QUIET or self.since - QUIET < alarm.since <= self.offset


def group_alarms(alarms: Sequence[Alarm]) -> list[AlarmGroup]:
    """Return the changes behind alarms, newest first."""
    changes: list[AlarmGroup] = []
    for alarm in sorted(alarms, key=lambda each: each.offset):
        if changes and changes[-1].includes(alarm):
            changes[-1] = AlarmGroup((*changes[-1].alarms, alarm))
        else:
            changes.append(AlarmGroup((alarm,)))
    return changes[::-1]


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The judged answers among which a change and a fall were seen, in order. numbers: whether they are numbers."""

    blocks: Sequence[OutcomeBlock]
    numbers: bool = False

    def between(self, after: int, until: int) -> OutcomeSpan | None:
        """Summarise those after an offset up to another; of counted ones, the blocks that end there. None without any."""
        found = [each for each in self.blocks if after < each.offset <= until]
        return summarize_blocks(found) if found else None


def join_fall(
    fall: Fall | None, changes: Sequence[AlarmGroup], answers: JudgedAnswers
) -> tuple[Fall | None, list[AlarmGroup]]:
    """Return both with one begin for a fall and the changes of the same event: the earlier one.

    A slow decline is found by the detectors and by the comparison of the answers, each with its own estimate.
    """
    if fall is None:
        return None, [*changes]
    same = [change for change in changes if is_of_fall(change, fall, answers)]
    begin = min([fall.begin, *(estimate_begin(change, fall, answers) for change in same)])
    joined = [replace(change, began=begin) if change in same else change for change in changes]
    return replace(fall, since=begin - 1), joined


def is_of_fall(change: AlarmGroup, fall: Fall, answers: JudgedAnswers) -> bool:
    """Return whether a change of the answers is the same event as a fall: its last alarm is later, or not long before without
    a recovery.
    """
    if change.main.what == "features" or fall.since >= change.last + QUIET:
        return False
    return answers.numbers or not has_recovered(change, answers.between(change.last, fall.since))


def has_recovered(change: AlarmGroup, later: OutcomeSpan | None) -> bool:
    """Return whether the answers after the alarms of a change were about as good as before it. Not of numbers, whose errors are no rates."""
    if not change.losses or later is None or later.count < MIN_RECOVERY:
        return False
    return 1 - later.mean < (change.losses[-1].before + change.losses[-1].after) / 2


def is_over(change: AlarmGroup, recent: RecentOutcomes) -> bool:
    """Return whether the newest answers, all of them after the alarms of a change, are about as good as those before it.

    A change of one class or of the inputs, and one of numbers, never is: the newest answers do not tell.
    """
    newest = recent.newest_after(change.last)
    if recent.numbers or not change.losses or newest is None or newest.count < MIN_RECOVERY:
        return False
    return 1 - newest.mean - min(alarm.before for alarm in change.losses) <= MAX_EXCESS


def estimate_begin(change: AlarmGroup, fall: Fall, answers: JudgedAnswers) -> int:
    """Return where the event of a change and a fall began, as the change has it.

    In a long log a detector's estimate may be far too early. One that the answers do not bear out is at most QUIET events
    before the alarm: too early rather than too late, for a version from before has then learned nothing of the event.
    """
    if fall.since - change.since < QUIET:
        return change.since
    between, size = answers.between(change.since - 1, fall.since), fall.after.mean - fall.before.mean
    if between is not None and (between.mean - fall.before.mean) / size >= MIN_WORSE:
        return change.since
    return max(change.since, change.offset - QUIET)


def confirm_decline(decline: Decline | None, changes: Sequence[AlarmGroup], recent: RecentOutcomes) -> Fall | None:
    """Return a decline as a fall, if the drift detectors noticed it too: chance does not explain two such signs together.

    changes: newest first. An alarm counts that was raised within the last 100 answers, unless these are as good again.
    """
    newest = recent.newest()
    change = next((each for each in changes if each.main.what != "features"), None)
    if decline is None or newest is None or change is None or is_over(change, recent):
        return None
    noticed = recent.since(change.last - 1)
    is_recent = noticed is not None and noticed.count <= newest.count
    return Fall(change.since - 1, decline.before, decline.after) if is_recent else None


@dataclass(frozen=True, slots=True)
class NoticedFall:
    """A fall along a curve that a reader must know of, with one begin for it and the alarms of the same event.

    begins: with which event the change of each alarm began. is_noticed: whether any alarm is of the fall.
    """

    past: PastFall
    begins: Sequence[int]
    is_noticed: bool


def notice_fall(curve: Sequence[CurveSegment], alarms: Sequence[Alarm], observed: str) -> NoticedFall | None:
    """Return the fall of the accuracy of a model along its curve; None if there is none that matters.

    observed: the predictor whose answers the detectors observed.
    """
    past = find_past_fall(curve)
    if past is None or not past.matters:
        return None
    until = past.fall.since + QUIET if past.until is None else min(past.fall.since + QUIET, past.until)
    near = [change for change in group_alarms(alarms) if change.since <= until]
    fall, near = join_fall(past.fall, near, JudgedAnswers(count_curve(curve, observed)))
    assert fall is not None, "a fall stays one"
    begins = {alarm: change.began for change in near for alarm in change.alarms}
    is_noticed = any(change.began is not None for change in near)
    return NoticedFall(replace(past, fall=fall), [begins.get(each) or each.since for each in alarms], is_noticed)
