"""Drift: when it is told and when not, what is told, and that all of it is a function of the log."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from river.drift import ADWIN
from safetensors.numpy import save

from online.learning.drift import CLASS_DELTA, DELTA, REFERENCE, Adwin, Alarm, Change, Kswin, Monitor
from online.learning.learner import Pupil
from online.models import Options, Part, State
from online.schemas import Entry, Event, Target
from online.settings import Drift
from online.store import drift_of
from tests.learning.test_learner import Scene

VECTOR: Options = {"input": "vector", "size": 3, "scale": 4.0, "drift_window": 32}
SWAPPED_AT = 800


def losses(chances: Sequence[tuple[int, float]], seed: int) -> list[int]:
    """(how many, chance of being wrong) after one another."""
    rng = np.random.default_rng(seed)
    return [int(value) for count, chance in chances for value in rng.random(count) < chance]


def changes(detector: Adwin, told: Sequence[int]) -> list[tuple[int, Change]]:
    found = ((place, detector.add(loss, place)) for place, loss in enumerate(told))
    return [(place, change) for place, change in found if change is not None]


# ADWIN


def rivers_adwin() -> Any:
    return ADWIN(delta=DELTA, clock=32)


@pytest.mark.parametrize("seed", range(6))
def test_the_first_alarm_comes_when_rivers_does_and_the_windows_are_as_long_until_then(seed: int) -> None:
    ours, rivers = Adwin(DELTA, clock=32), rivers_adwin()
    for place, loss in enumerate(losses([(1_500, 0.1), (1_500, 0.2 + 0.1 * seed)], seed)):
        change = ours.add(loss, place)
        rivers.update(loss)
        assert (change is not None) == rivers.drift_detected
        if change is not None:
            assert 1_500 <= place <= 2_300
            return
        assert ours.width == rivers.width
    raise AssertionError("no alarm")


def test_an_alarm_tells_since_when_and_from_what_to_what() -> None:
    place, change = changes(Adwin(DELTA, clock=32), losses([(1_000, 0.05), (1_000, 0.6)], 0))[0]
    assert 1_000 < place < 1_100
    assert abs(change.since - 1_000) <= 128
    assert change.before < 0.1 < 0.3 < change.after
    assert change.window == place - change.since + 1


@pytest.mark.parametrize("seed", range(4))
def test_getting_better_is_no_alarm(seed: int) -> None:
    assert not changes(Adwin(DELTA, clock=32), losses([(2_000, 0.6), (2_000, 0.2), (2_000, 0.01)], seed))


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.1, 0.4, 1.0])
def test_a_stationary_stream_raises_at_most_one_alarm_in_15_000(chance: float) -> None:
    for delta, clock in ((DELTA, 32), (CLASS_DELTA, 0)):
        raised = [len(changes(Adwin(delta, clock), losses([(15_000, chance)], seed))) for seed in range(4)]
        assert sum(raised) <= len(raised) and max(raised) <= 1


def test_few_losses_of_one_label_are_enough() -> None:
    place, change = changes(Adwin(CLASS_DELTA, clock=0), [0] * 60 + [1] * 40)[0]
    assert place < 85
    assert change.since >= 60


def test_a_detector_goes_on_where_its_numbers_were_taken() -> None:
    told = losses([(700, 0.1), (700, 0.5)], 3)
    whole, first = Adwin(DELTA, clock=32), Adwin(DELTA, clock=32)
    expected = changes(whole, told)
    changes(first, told[:900])
    resumed = Adwin(DELTA, clock=32)
    resumed.restore(first.numbers())
    found = [(place, change) for place in range(900, 1_400) if (change := resumed.add(told[place], place))]
    assert found == [each for each in expected if each[0] >= 900]
    assert resumed.numbers() == whole.numbers()


def test_a_long_window_takes_little_room() -> None:
    detector = Adwin(DELTA, clock=32)
    changes(detector, losses([(20_000, 0.1)], 0))
    assert detector.width == 20_000
    assert len(detector.buckets) <= 5 * 15


# KSWIN


def rows(count: int, shift: float, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(shift, 1.0, (count, 20))


def test_features_that_move_are_told_once_with_where_and_how_far() -> None:
    detector = Kswin(20)
    told = enumerate([*rows(1_000, 0.0, 0), *rows(1_000, 1.0, 1)])
    found = [(offset, alarm) for offset, row in told if (alarm := detector.add(row, offset))]
    assert len(found) == 1
    offset, (direction, far, change) = found[0]
    assert 1_000 <= offset <= 1_150 and 900 <= change.since <= 1_100
    assert 0 <= direction < 12 and 0.25 < far <= 1


@pytest.mark.parametrize("seed", range(3))
def test_features_that_stay_raise_no_alarm_in_15_000(seed: int) -> None:
    detector = Kswin(20)
    assert not any(detector.add(row, offset) for offset, row in enumerate(rows(15_000, 0.0, seed)))


# all of a model's


def text_entry(offset: int, label: str, choice: str | None, shift: int = 0) -> Entry:
    features = np.clip(np.random.default_rng(offset).normal(shift, 26, 384), -127, 127).astype(np.int8)
    return Entry(offset, Event(str(offset), "label", features.tobytes(), label, choice=choice))


def observed(entries: Sequence[Entry]) -> list[Alarm]:
    monitor = Monitor("classifier", {"input": "text"})
    return [alarm for entry in entries for alarm in monitor.observe(entry)]


def test_a_label_that_moved_is_told_by_name() -> None:
    labels = [f"l{offset % 10}" for offset in range(1_500)]
    told = [text_entry(n, label, "other" if label == "l3" and n >= 1_000 else label) for n, label in enumerate(labels)]
    found = [alarm for alarm in observed(told) if alarm.what == "class"]
    assert {alarm.label for alarm in found} == {"l3"}
    assert 900 <= found[0].since <= 1_050 < found[0].offset < 1_400
    assert found[0].before == 0 and found[0].size == found[0].after > 0.5


def test_features_are_watched_without_labels_or_answers() -> None:
    told = [text_entry(n, "", None, shift=0 if n < 900 else 6) for n in range(1_300)]
    assert {alarm.what for alarm in observed(told)} == {"features"}


def test_a_repertoire_that_is_added_is_no_drift_of_what_is_asked() -> None:
    told = [text_entry(n, "", None, shift=0 if n < 900 else 6) for n in range(1_300)]
    assert observed([replace(e, event=replace(e.event, id=f"added:{e.offset}#example")) for e in told]) == []


@pytest.mark.parametrize(
    ("event", "loss"),
    [
        (Event("1", "label", b"", "a", choice="a"), 0),
        (Event("1", "label", b"", "a", choice="b"), 1),
        (Event("1", "correction", b"", "a", choice="b"), 1),
        (Event("1", "reward", b"", "a", reward=0.2, choice="a"), 1),
        (Event("1", "reward", b"", "a", reward=0.7, choice="a"), 0),
        (Event("1", "label", b"", "a"), None),
        (Event("1", "reply", b"", "a", choice="b"), None),
    ],
)
def test_only_an_answer_that_somebody_judged_is_a_loss(event: Event, loss: int | None) -> None:
    monitor = Monitor("ranker", {})
    monitor.observe(Entry(1, event))
    assert (monitor.losses.count, monitor.losses.ones) == ((0, 0) if loss is None else (1, loss))


@pytest.mark.parametrize(("kind", "options"), [("river", {}), ("classifier", {"input": "table"}), ("ranker", {})])
def test_inputs_that_are_no_row_of_numbers_are_left_out(kind: str, options: Options) -> None:
    monitor = Monitor(kind, options)
    for offset in range(REFERENCE):
        assert monitor.observe(Entry(offset, Event("e", "label", b'{"x":1.0}', "a", choice="a"))) == []


# in a pupil


def swapping(count: int, seed: int = 0) -> Iterator[Entry]:
    """Two labels that change places after SWAPPED_AT."""
    rng = np.random.default_rng(seed)
    for offset in range(1, count + 1):
        side = int(rng.integers(2))
        label = "ab"[side if offset <= SWAPPED_AT else 1 - side]
        yield Entry(offset, Event(f"e{offset}", "label", rng.normal(2.0 * side - 1, 0.6, 3).tobytes(), label))


def answered(entries: Sequence[Entry], drift: Drift = "act", options: Options = VECTOR) -> list[Entry]:
    """With what a model that learns them would have answered."""
    pupil, made = new_pupil(drift, options), []
    for entry in entries:
        choice = pupil.model.predict([entry.event.features])[0].choice
        made.append(replace(entry, event=replace(entry.event, choice=choice)))
        pupil.apply(made[-1:])
    return made


def new_pupil(drift: Drift = "act", options: Options = VECTOR, history: Sequence[Entry] = ()) -> Pupil:
    return Pupil("classifier", options, "cpu", lambda until: (e for e in history if e.offset <= until), drift=drift)


def in_bytes(state: State) -> dict[str, bytes]:
    return {name: save(dict(part.tensors)) for name, part in state.items()}


@pytest.fixture(scope="module")
def log() -> list[Entry]:
    return answered(list(swapping(1_400)))


def after(log: Sequence[Entry], pupil: Pupil, cut: int) -> Pupil:
    for start in range(0, len(log), cut):
        pupil.apply(log[start : start + cut])
    return pupil


def test_who_acts_on_drift_is_right_again_sooner_than_who_watches(log: list[Entry]) -> None:
    def right(entries: Sequence[Entry]) -> int:
        return sum(entry.event.choice == entry.event.label for entry in entries[SWAPPED_AT + 100 :])

    assert right(log) > 1.5 * right(answered(list(swapping(1_400)), "watch"))


def test_entries_cut_differently_end_in_the_same_state_alarms_and_weights(log: list[Entry]) -> None:
    ends = [in_bytes(after(log, new_pupil(), cut).state()) for cut in (1, 7, 64, 1_400)]
    assert new_pupil().state().keys() | {"windows"} == ends[0].keys()
    assert all(end == ends[0] for end in ends[1:])


@pytest.mark.parametrize("at", [100, SWAPPED_AT, 870, 1_100])
def test_a_resumed_pupil_ends_where_an_uninterrupted_one_does(log: list[Entry], at: int) -> None:
    whole, resumed = after(log, new_pupil(), 50), new_pupil()
    resumed.restore(after(log[:at], new_pupil(), 50).state())
    after(log[at:], resumed, 50)
    assert resumed.monitor.alarms == whole.monitor.alarms != []
    assert in_bytes(resumed.state()) == in_bytes(whole.state())


def test_what_is_learned_is_the_same_whether_drift_is_off_watched_or_acted_on(log: list[Entry]) -> None:
    off, watch, act = (after(log, new_pupil(drift), 64) for drift in ("off", "watch", "act"))
    assert off.model.fingerprint() == watch.model.fingerprint() == act.model.fingerprint()
    assert "drift" not in off.state() and off.monitor.alarms == []
    assert watch.monitor.alarms == act.monitor.alarms != []
    assert in_bytes(off.model.state()) == in_bytes(watch.model.state()) != in_bytes(act.model.state())


def test_a_model_without_windows_may_be_told_to_act(log: list[Entry]) -> None:
    plain: Options = {"input": "vector", "size": 3, "scale": 4.0}
    acted, watched = (after(log, new_pupil(drift, plain), 64) for drift in ("act", "watch"))
    assert in_bytes(acted.state()) == in_bytes(watched.state())


def test_detectors_are_no_serving_part(log: list[Entry]) -> None:
    state = after(log[:300], new_pupil(), 50).state()
    assert isinstance(state["drift"], Part) and not state["drift"].serving
    assert "drift" not in new_pupil().state(serving_only=True)


def test_an_entry_that_was_set_aside_was_answered_all_the_same(log: list[Entry]) -> None:
    bad = replace(log[5], event=replace(log[5].event, features=b"short"))
    told = [*log[:5], bad, *log[6:]]
    first = after(told, new_pupil(), 50)
    again = new_pupil()
    again.refused = dict(first.refused)
    assert list(first.refused) == [6]
    assert in_bytes(after(told, again, 50).state()) == in_bytes(first.state())


def test_an_alarm_outlives_what_is_taken_back_by_a_replay(log: list[Entry]) -> None:
    fitted: Options = {"input": "vector", "size": 3, "drift_window": 32}
    taken_back = Entry(1_401, Event("r", "retraction", target=Target(log[50].offset, log[50].event)))
    history = [*log, taken_back]
    pupil = after(history, new_pupil("act", fitted, history), 64)
    never, monitor = new_pupil("off", fitted), Monitor("classifier", fitted)
    for entry in log:  # the same alarms at the same places, without what was taken back
        if entry.offset != log[50].offset:
            never.apply([entry])
        for alarm in monitor.observe(entry):
            if alarm.what != "features":
                never.model.drifted(alarm.label, alarm.since)
    assert pupil.model.fingerprint() == never.model.fingerprint()
    assert in_bytes(pupil.model.state()) == in_bytes(never.model.state())


# in a learner


def test_a_killed_learner_raises_the_same_alarms_and_notes_each_once(tmp_path: Path, log: list[Entry]) -> None:
    scene = Scene(tmp_path, options=VECTOR)
    scene.learner = scene.started(durable_every_s=1e9, drift="act")
    scene.learn(*(entry.event for entry in log[:820]))
    scene.learn(*(entry.event for entry in log[820:1_000]))
    noted = scene.workspace.store.read(lambda c: drift_of(c, "m", 100))
    scene.learner = scene.started(drift="act")  # from the first publication: all of it is learned again
    scene.learn(*(entry.event for entry in log[1_000:]))
    whole = after(log, new_pupil(), 256)
    assert in_bytes(scene.learner.pupil.state()) == in_bytes(whole.state())
    rows = scene.workspace.store.read(lambda c: drift_of(c, "m", 100))
    assert [(row.offset, row.what) for row in reversed(rows)] == [(a.offset, a.what) for a in whole.monitor.alarms]
    assert noted and rows[-len(noted) :] == noted
    assert scene.snapshots.manifests()[0].metrics["drift_alarms"] == len(rows)
    scene.workspace.store.close()
