"""Groups drift alarms by the change that they stem from: detectors and classes raise many alarms of one."""

from collections.abc import Sequence
from dataclasses import dataclass

from online.store.drift_alarms import DriftAlarmRow

QUIET = 500  # events without an alarm after which the next one is of another change, as in the detectors


@dataclass(frozen=True, slots=True)
class DriftChange:
    """The alarms of one change, oldest first. They are never none."""

    alarms: tuple[DriftAlarmRow, ...]

    @property
    def since(self) -> int:
        """The offset near which the change began, as the detector that saw it first has it."""
        return self.alarms[0].since

    @property
    def offset(self) -> int:
        """Of the feedback that raised the first alarm."""
        return self.alarms[0].offset

    @property
    def main(self) -> DriftAlarmRow:
        """The alarm that says most: of all answers rather than of one class, and of answers rather than of inputs."""
        ranks = {"loss": 0, "class": 1, "features": 2}
        return min(self.alarms, key=lambda alarm: (ranks.get(alarm.what, 3), alarm.offset))

    def includes(self, alarm: DriftAlarmRow) -> bool:
        """Whether a later alarm is of this change: it follows soon, or began before this change was noticed."""
        return alarm.offset - self.alarms[-1].offset < QUIET or self.since - QUIET < alarm.since <= self.offset


def group_alarms(alarms: Sequence[DriftAlarmRow]) -> list[DriftChange]:
    """The changes behind alarms, newest first."""
    changes: list[DriftChange] = []
    for alarm in sorted(alarms, key=lambda each: each.offset):
        if changes and changes[-1].includes(alarm):
            changes[-1] = DriftChange((*changes[-1].alarms, alarm))
        else:
            changes.append(DriftChange((alarm,)))
    return changes[::-1]
