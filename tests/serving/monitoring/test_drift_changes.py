"""Alarms are grouped by the change that they stem from."""

from online.serving.monitoring.drift_changes import group_alarms
from online.store.drift_alarms import DriftAlarmRow


def alarm(offset: int, since: int, what: str = "loss", label: str | None = None) -> DriftAlarmRow:
    return DriftAlarmRow(
        model="m",
        offset=offset,
        what=what,
        label=label,
        projection=None,
        since=since,
        before=0.1,
        after=0.9,
        size=0.8,
        window=32,
        noted_at="2026-01-01T00:00:00+00:00",
    )


def test_alarms_of_detectors_and_classes_that_follow_one_another_are_one_change() -> None:
    alarms = [alarm(920, 900, "class", "a"), alarm(930, 898), alarm(935, 905, "class", "b"), alarm(1_300, 1_000)]
    (change,) = group_alarms(alarms[::-1])
    assert [each.offset for each in change.alarms] == [920, 930, 935, 1_300]
    assert (change.since, change.offset, change.main.offset) == (900, 920, 930)


def test_a_late_alarm_of_a_rare_class_belongs_to_the_change_that_it_reports() -> None:
    changes = group_alarms([alarm(920, 900), alarm(2_500, 910, "class", "rare")])
    assert [len(change.alarms) for change in changes] == [2]


def test_a_later_change_is_another_one_and_comes_first() -> None:
    changes = group_alarms([alarm(920, 900), alarm(2_500, 2_450)])
    assert [change.since for change in changes] == [2_450, 900]
    assert group_alarms([]) == []
