"""Drift alarms of a model that predicts numbers: when its errors rise, and only then."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save

from online.learning.drift import FIRST, LEAST_RISE, NOMINAL, DriftMonitor
from online.models import StatePart
from online.schemas.events import Event
from online.scoring.drift_changes import Alarm
from tests.support import first_of

RISE = 4_000


def make_entries(errors: NDArray[np.float64], start: int = 1) -> list[Event]:
    """Labels of 20 whose recorded answers were wrong by these errors."""
    return [
        Event(f"e{start + index}", "label", b"{}", "20.0", choice=repr(20.0 + float(error)), offset=start + index)
        for index, error in enumerate(errors)
    ]


def create_monitor() -> DriftMonitor:
    return DriftMonitor("regressor", {"input": "table"})


def find_alarms(errors: NDArray[np.float64]) -> list[Alarm]:
    return [alarm for _, alarms in create_monitor().observe_all(make_entries(errors)) for alarm in alarms]


def draw_errors(count: int, seed: int, degrees: int) -> NDArray[np.float64]:
    """Student's t: from three degrees of freedom, with outliers, to almost normal."""
    return np.random.default_rng(seed).standard_t(degrees, count)


@pytest.mark.parametrize("degrees", [3, 100])
@pytest.mark.parametrize("seed", first_of(range(4)))
def test_errors_that_stay_the_same_raise_no_alarm_in_15_000(seed: int, degrees: int) -> None:
    assert find_alarms(draw_errors(15_000, seed, degrees)) == []


@pytest.mark.parametrize("seed", first_of(range(4)))
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_errors_twice_as_large_raise_one_alarm(seed: int, scale: float) -> None:
    errors = draw_errors(6_000, seed, 100) * scale
    errors[RISE:] *= 2
    (alarm,) = find_alarms(errors)
    assert (alarm.what, alarm.label) == ("loss", None)
    assert RISE < alarm.offset < RISE + 200
    assert abs(alarm.since - RISE) <= 128
    assert alarm.before < 0.3 and alarm.after > LEAST_RISE * NOMINAL


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_a_model_that_improves_raises_no_alarm(seed: int) -> None:
    errors = draw_errors(8_000, seed, 100)
    errors[:3_000] *= 10 * np.exp(-np.arange(3_000) / 1_000)
    errors[5_000:] *= 0.2
    assert find_alarms(errors) == []


def test_answers_that_are_no_numbers_and_events_that_judge_nothing_are_left_out() -> None:
    useless = [
        Event("a", "label", b"{}", "1.0"),
        Event("b", "label", b"{}", "mango", choice="1.0"),
        Event("c", "retraction"),
    ]
    monitor = create_monitor()
    monitor.observe_all([event.at(offset) for offset, event in enumerate(useless, 1)])
    assert monitor.part().tensors["meta"].tobytes() == create_monitor().part().tensors["meta"].tobytes()


@pytest.mark.parametrize("cut", [FIRST // 2, FIRST, RISE + 20])
def test_a_restored_monitor_continues_where_it_was_saved(cut: int) -> None:
    errors = draw_errors(RISE + 400, 7, 100)
    errors[RISE:] *= 3
    entries = make_entries(errors)
    first, whole, resumed = create_monitor(), create_monitor(), create_monitor()
    whole.observe_all(entries)
    first.observe_all(entries[:cut])
    resumed.restore(write_and_read(first.part()))
    observe_one_by_one(resumed, entries[cut:])
    assert whole.alarms and resumed.alarms == whole.alarms
    assert save(dict(resumed.part().tensors)) == save(dict(whole.part().tensors))


def write_and_read(part: StatePart) -> StatePart:
    return StatePart(load(save(dict(part.tensors))), serving=False)


def observe_one_by_one(monitor: DriftMonitor, entries: Sequence[Event]) -> None:
    for entry in entries:
        monitor.observe(entry)
