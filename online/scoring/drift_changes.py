"""Groups drift alarms by the change that they stem from: detectors and classes raise many alarms of one.

alarms --group_alarms--> changes --+
                                   +--join_fall--> one begin for what is one event
a fall of the accuracy ------------+

A service and a replay say the same begin. Each brings its own alarms, outcomes and fall: the protocols say what of them is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

QUIET = 500  # events without an alarm after which the next one is of another change, as in the detectors
MIN_RECOVERY = 30  # answers between an alarm and a fall that show whether the model had recovered
MAX_EXCESS = 0.05  # rate of errors by which the newest answers may exceed the one before a change that is over
MIN_WORSE = 0.25  # of the size of a fall, by which the answers before it are worse if it began with them


class DriftAlarm(Protocol):
    """online/learning/drift.py explains the fields."""

    @property
    def offset(self) -> int: ...
    @property
    def what(self) -> str: ...
    @property
    def since(self) -> int: ...
    @property
    def before(self) -> float: ...
    @property
    def after(self) -> float: ...


class Answers(Protocol):
    """Consecutive judged answers: how many, and their accuracy or mean error."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...


class AccuracyFall(Protocol):
    """since: the offset of the last event before the change. before, after: the answers on either side."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def since(self) -> int: ...
    @property
    def before(self) -> Answers: ...
    @property
    def after(self) -> Answers: ...


class Outcomes(Protocol):
    """numbers: whether the answers are numbers."""

    @property
    def numbers(self) -> bool: ...

    def between(self, after: int, until: int) -> Answers | None:
        """The answers after an offset up to another; None if there are none."""


class NewestOutcomes(Outcomes, Protocol):
    """Outcomes that know the newest answers."""

    def newest_after(self, offset: int) -> Answers | None:
        """The last 100, without those up to an offset; None if there are none."""


Alarm = TypeVar("Alarm", bound=DriftAlarm)
Fall = TypeVar("Fall", bound=AccuracyFall)


@dataclass(frozen=True, slots=True)
class DriftChange(Generic[Alarm]):
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
    def main(self) -> Alarm:
        """The alarm that says most: of all answers rather than of one class, and of answers rather than of inputs."""
        ranks = {"loss": 0, "class": 1, "features": 2}
        return min(self.alarms, key=lambda alarm: (ranks.get(alarm.what, 3), alarm.offset))

    def includes(self, alarm: DriftAlarm) -> bool:
        """Whether a later alarm is of this change: it follows soon, or began before this change was noticed."""
        return alarm.offset - self.alarms[-1].offset < QUIET or self.since - QUIET < alarm.since <= self.offset


def group_alarms(alarms: Sequence[Alarm]) -> list[DriftChange[Alarm]]:
    """The changes behind alarms, newest first."""
    changes: list[DriftChange[Alarm]] = []
    for alarm in sorted(alarms, key=lambda each: each.offset):
        if changes and changes[-1].includes(alarm):
            changes[-1] = DriftChange((*changes[-1].alarms, alarm))
        else:
            changes.append(DriftChange((alarm,)))
    return changes[::-1]


def join_fall(
    fall: Fall | None, changes: Sequence[DriftChange[Alarm]], recent: Outcomes
) -> tuple[Fall | None, list[DriftChange[Alarm]]]:
    """Return both with one begin for a fall and the changes of the same event: the earlier one.

    A slow decline is found by the detectors and by the comparison of the newest answers, each with its own estimate.
    """
    if fall is None:
        return None, [*changes]
    same = [change for change in changes if is_of_fall(change, fall, recent)]
    begin = min([fall.since + 1, *(estimate_begin(change, fall, recent) for change in same)])
    joined = [replace(change, began=begin) if change in same else change for change in changes]
    return replace(fall, since=begin - 1), joined


def is_of_fall(change: DriftChange[Alarm], fall: AccuracyFall, recent: Outcomes) -> bool:
    """Whether a change of the answers is the same event as a fall: its last alarm is later, or not long before without
    a recovery.
    """
    last = change.alarms[-1].offset
    if change.main.what == "features" or fall.since >= last + QUIET:
        return False
    return recent.numbers or not has_recovered(change, recent.between(last, fall.since))


def has_recovered(change: DriftChange[Alarm], later: Answers | None) -> bool:
    """Whether the answers after the alarms of a change were about as good as before it. Not of numbers, whose errors are no rates."""
    losses = [alarm for alarm in change.alarms if alarm.what == "loss"]
    if not losses or later is None or later.count < MIN_RECOVERY:
        return False
    return 1 - later.mean < (losses[-1].before + losses[-1].after) / 2


def is_over(change: DriftChange[Alarm], recent: NewestOutcomes) -> bool:
    """Whether the newest answers, all of them after the alarms of a change, are about as good as those before it.

    A change of one class or of the inputs, and one of numbers, never is: the newest answers do not tell.
    """
    losses, last = [alarm for alarm in change.alarms if alarm.what == "loss"], change.alarms[-1].offset
    newest = recent.newest_after(last)
    if recent.numbers or not losses or newest is None or newest.count < MIN_RECOVERY:
        return False
    return 1 - newest.mean - min(alarm.before for alarm in losses) <= MAX_EXCESS


def estimate_begin(change: DriftChange[Alarm], fall: AccuracyFall, recent: Outcomes) -> int:
    """Where the event of a change and a fall began, as the change has it.

    In a long log a detector's estimate may be far too early. One that the answers do not bear out is at most QUIET events
    before the alarm: too early rather than too late, for a version from before has then learned nothing of the event.
    """
    if fall.since - change.since < QUIET:
        return change.since
    between, size = recent.between(change.since - 1, fall.since), fall.after.mean - fall.before.mean
    if between is not None and (between.mean - fall.before.mean) / size >= MIN_WORSE:
        return change.since
    return max(change.since, change.offset - QUIET)
