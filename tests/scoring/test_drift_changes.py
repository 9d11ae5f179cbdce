"""Alarms are grouped by the change that they stem from."""

import random
from collections.abc import Sequence

import pytest

from online.learning.detectors import Adwin
from online.scoring.drift_changes import (
    Alarm,
    AlarmGroup,
    AlarmKind,
    JudgedAnswers,
    confirm_decline,
    group_alarms,
    is_over,
    join_fall,
)
from online.scoring.falls import Fall, find_decline, find_fall
from online.scoring.recent_outcomes import AnswerOutcome, RecentOutcomes


def alarm(
    offset: int, since: int, what: AlarmKind = "loss", label: str | None = None, rates: tuple[float, float] = (0.1, 0.9)
) -> Alarm:
    return Alarm(offset, what, label, None, since, *rates, rates[1] - rates[0], 32)


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


def is_over_after(good: int, *alarms: Alarm, wrong_every: int = 10, numbers: bool = False) -> bool:
    """Whether a dip up to offset 960 is over after `good` answers of which one in `wrong_every` is wrong."""
    recent = RecentOutcomes(numbers)
    for offset in range(1, 961 + good):
        is_right = offset <= 900 or (offset > 960 and offset % wrong_every != 0)
        recent.add(AnswerOutcome(offset, offset - 1, float(is_right)))
    (change,) = group_alarms(alarms)
    return is_over(change, recent)


def test_a_dip_is_over_once_the_newest_answers_are_as_good_as_before_it() -> None:
    dip = (alarm(910, 901), alarm(912, 901, "class", "a"))
    assert is_over_after(100, *dip)
    assert not is_over_after(20, *dip)  # the newest 100 still contain it
    assert not is_over_after(100, *dip, wrong_every=4)  # better than in the dip, worse than before
    assert not is_over_after(29, alarm(960, 901))  # too few
    assert is_over_after(31, alarm(960, 901))


def test_nothing_is_said_of_the_end_of_a_change_that_the_newest_answers_do_not_show() -> None:
    assert not is_over_after(100, alarm(910, 901, "class", "a"))
    assert not is_over_after(100, alarm(910, 901, "features"))
    assert not is_over_after(100, alarm(910, 901), numbers=True)


def join(
    fall: Fall | None, changes: Sequence[AlarmGroup], recent: RecentOutcomes
) -> tuple[Fall | None, list[AlarmGroup]]:
    return join_fall(fall, changes, JudgedAnswers(recent.cells(1), recent.numbers))


def decline(seed: int, begin: int, length: int) -> tuple[RecentOutcomes, list[Alarm]]:
    """Answers of which 95 % are right until `begin`, and then fewer and fewer, with the alarms that they raise."""
    draw, recent, detector = random.Random(seed), RecentOutcomes(False), Adwin(0.002, clock=32)
    alarms = list[Alarm]()
    for offset in range(1, begin + length + 1):
        is_right = draw.random() < 0.95 - 0.4 * max(0, offset - begin) / length
        recent.add(AnswerOutcome(offset, offset - 1, float(is_right)))
        if change := detector.add(int(not is_right), offset):
            alarms.append(alarm(offset, change.since, rates=(change.before, change.after)))
    return recent, alarms


@pytest.mark.parametrize("length", [300, 400, 600, 1_000])
@pytest.mark.parametrize("seed", range(6))
def test_a_slow_decline_has_one_begin_from_the_alarm_and_the_fall(seed: int, length: int) -> None:
    recent, alarms = decline(seed, 1_000, length)
    changes, found = group_alarms(alarms), find_fall(recent)
    assert found is not None
    fall, joined = join(found, changes, recent)
    assert fall is not None
    assert [each.since for each in joined] == [fall.since + 1] * len(joined)
    assert fall.since <= found.since and 800 <= fall.since <= 1_000 + length / 3
    assert (fall.before, fall.after) == (found.before, recent.newest())


def settled(rates: dict[int, float]) -> RecentOutcomes:
    """Answers with these shares of right ones, each up to an offset."""
    draw, recent, offset = random.Random(1), RecentOutcomes(False), 0
    for until, rate in rates.items():
        while offset < until:
            offset += 1
            recent.add(AnswerOutcome(offset, offset - 1, float(draw.random() < rate)))
    return recent


def test_a_fall_that_is_seen_to_begin_earlier_than_the_alarm_gives_its_begin_to_the_alarm() -> None:
    recent = settled({1_000: 0.95, 1_300: 0.6})
    fall = find_fall(recent)
    assert fall is not None and abs(fall.since - 1_000) <= 10
    joined_fall, changes = join(fall, group_alarms([alarm(1_290, 1_200)]), recent)
    assert joined_fall == fall and [each.since for each in changes] == [fall.since + 1]


def test_an_alarm_that_the_model_had_recovered_from_is_another_event() -> None:
    recent = settled({900: 0.95, 930: 0.3, 1_300: 0.95, 1_400: 0.5})
    changes = group_alarms([alarm(930, 901, rates=(0.05, 0.7))])
    fall = find_fall(recent)
    assert fall is not None and abs(fall.since - 1_300) <= 20
    assert join(fall, changes, recent) == (fall, changes)


def test_an_alarm_of_the_inputs_keeps_its_begin_and_without_a_fall_every_change_does() -> None:
    recent = settled({1_000: 0.95, 1_300: 0.6})
    of_inputs, of_answers = group_alarms([alarm(1_100, 940, "features")]), group_alarms([alarm(1_100, 990)])
    assert join(find_fall(recent), of_inputs, recent)[1] == of_inputs
    assert join(None, of_answers, recent) == (None, of_answers)


def test_an_estimate_that_is_far_too_early_is_not_the_begin() -> None:
    recent = settled({5_000: 0.95, 5_300: 0.6})
    fall = find_fall(recent)
    assert fall is not None
    joined, (change,) = join(fall, group_alarms([alarm(5_100, 2_000)]), recent)
    assert joined is not None and joined.since + 1 == change.since == 4_600


def test_a_decline_that_the_detectors_noticed_too_is_a_fall() -> None:
    recent = settled({1_000: 0.93, 1_100: 0.68})
    decline, noticed = find_decline(recent), group_alarms([alarm(1_070, 1_001)])
    assert find_fall(recent) is None and decline is not None
    fall = confirm_decline(decline, noticed, recent)
    assert fall is not None and (fall.since, fall.before, fall.after) == (1_000, decline.before, decline.after)
    assert join(fall, noticed, recent)[0] == fall


def test_a_decline_alone_and_an_alarm_alone_are_no_fall() -> None:
    recent = settled({1_000: 0.93, 1_100: 0.68})
    decline = find_decline(recent)
    assert confirm_decline(decline, [], recent) is None
    assert confirm_decline(decline, group_alarms([alarm(1_070, 1_001, "features")]), recent) is None
    assert confirm_decline(decline, group_alarms([alarm(900, 890)]), recent) is None  # of another event, long before
    steady = settled({1_100: 0.93})
    assert confirm_decline(find_decline(steady), group_alarms([alarm(1_070, 1_001)]), steady) is None
