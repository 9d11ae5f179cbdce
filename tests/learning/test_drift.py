"""Drift alarms: when they are raised, what they contain, and that they depend on the log alone."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from river.drift import ADWIN
from safetensors.numpy import save

from online.learning.detectors import REFERENCE, Adwin, ChangePoint, Cusum, Kswin, bound_distances, kolmogorov_smirnov
from online.learning.drift import CLASS_DELTA, DELTA, DriftMonitor
from online.learning.training_state import TrainingState
from online.models import Options, State, StatePart
from online.schemas.events import Event
from online.scoring.drift_changes import Alarm
from online.settings import Drift
from online.store.drift_alarms import load_drift_alarms
from tests.learning.conftest import CreateScene
from tests.support import first_of

VECTOR: Options = {"input": "vector", "size": 3, "scale": 4.0, "drift_window": 32}
VECTOR_INPUT: Options = {"input": "vector", "size": 3}
SWAPPED_AT = 800


def draw_losses(stretches: Sequence[tuple[int, float]], seed: int) -> list[int]:
    """Draw 0 for a right answer and 1 for a wrong one. stretches: (count, error probability) of each stretch."""
    rng = np.random.default_rng(seed)
    return [int(value) for count, probability in stretches for value in rng.random(count) < probability]


def find_changes(detector: Adwin, losses: Sequence[int]) -> list[tuple[int, ChangePoint]]:
    changes = ((index, detector.add(loss, index)) for index, loss in enumerate(losses))
    return [(index, change) for index, change in changes if change is not None]


# ADWIN


def create_river_adwin() -> Any:
    return ADWIN(delta=DELTA, clock=32)


@pytest.mark.parametrize("seed", first_of(range(6)))
def test_the_first_alarm_and_the_windows_before_it_equal_those_of_river(seed: int) -> None:
    ours, theirs = Adwin(DELTA, clock=32), create_river_adwin()
    before = 0.1 if seed else 0.5
    for index, loss in enumerate(draw_losses([(1_500, before), (1_500, before + 0.1 + 0.1 * seed)], seed)):
        change = ours.add(loss, index)
        theirs.update(loss)
        assert (change is not None) == theirs.drift_detected
        if change is not None:
            assert 1_500 <= index <= 2_300
            return
        assert ours.width == theirs.width
    raise AssertionError("no alarm")


def test_an_alarm_contains_its_start_and_the_means_before_and_after() -> None:
    index, change = find_changes(Adwin(DELTA, clock=32), draw_losses([(1_000, 0.05), (1_000, 0.6)], 0))[0]
    assert 1_000 < index < 1_100
    assert abs(change.since - 1_000) <= 128
    assert change.before < 0.1 < 0.3 < change.after
    assert change.window == index - change.since + 1


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_improvement_raises_no_alarm(seed: int) -> None:
    assert not find_changes(Adwin(DELTA, clock=32), draw_losses([(2_000, 0.6), (2_000, 0.2), (2_000, 0.01)], seed))


@pytest.mark.few(2)
@pytest.mark.parametrize("probability", [0.0, 0.02, 0.1, 0.4, 1.0])
def test_a_stationary_stream_raises_at_most_one_alarm_in_15_000(probability: float) -> None:
    for delta, clock in ((DELTA, 32), (CLASS_DELTA, 0)):
        raised = [
            len(find_changes(Adwin(delta, clock), draw_losses([(15_000, probability)], seed))) for seed in range(4)
        ]
        assert sum(raised) <= len(raised) and max(raised) <= 1


def test_a_few_losses_of_one_class_are_enough() -> None:
    index, change = find_changes(Adwin(CLASS_DELTA, clock=0), [0] * 60 + [1] * 40)[0]
    assert index < 85
    assert change.since >= 60


def test_a_restored_detector_continues_where_it_was_saved() -> None:
    losses = draw_losses([(700, 0.1), (700, 0.5)], 3)
    uninterrupted, first = Adwin(DELTA, clock=32), Adwin(DELTA, clock=32)
    expected = find_changes(uninterrupted, losses)
    find_changes(first, losses[:900])
    resumed = Adwin(DELTA, clock=32)
    resumed.restore(first.numbers())
    found = [(index, change) for index in range(900, 1_400) if (change := resumed.add(losses[index], index))]
    assert found == [each for each in expected if each[0] >= 900]
    assert resumed.numbers() == uninterrupted.numbers()


def test_a_long_window_takes_little_memory() -> None:
    detector = Adwin(DELTA, clock=32)
    find_changes(detector, draw_losses([(20_000, 0.1)], 0))
    assert detector.width == 20_000
    assert len(detector.buckets) <= 5 * 15


# KSWIN


def draw_rows(count: int, shift: float, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(shift, 1.0, (count, 20))


def test_shifted_features_raise_one_alarm_with_direction_and_means() -> None:
    detector = Kswin(20)
    alarms = detector.add(np.concatenate([draw_rows(1_000, 0.0, 0), draw_rows(1_000, 1.0, 1)]), range(2_000))
    assert len(alarms) == 1
    offset, (direction, distance, change) = alarms[0]
    assert 1_000 <= offset <= 1_150 and 900 <= change.since <= 1_100
    assert 0 <= direction < 12 and 0.25 < distance <= 1


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_stationary_features_raise_no_alarm_in_15_000(seed: int) -> None:
    detector = Kswin(20)
    assert not detector.add(draw_rows(15_000, 0.0, seed), range(15_000))


@pytest.mark.parametrize("width", [1, 7, 129])
@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_rows_and_losses_added_together_give_the_bytes_of_one_by_one(width: int, dtype: type) -> None:
    draw = np.random.default_rng(width)
    rows: NDArray[Any] = (
        (40 * draw.normal(np.repeat([0.0, 0.8], 900)[:, None], 0.6, (1_800, width))).clip(-127, 127).astype(dtype)
    )
    losses, offsets = draw_losses([(900, 0.1), (900, 0.5)], width), range(1_800)
    alone, together = Kswin(width), Kswin(width)
    watched = [[Adwin(DELTA, clock), Adwin(DELTA, clock)] for clock in (0, 32)]
    shifts = [(at, each) for at in offsets for _, each in alone.add(rows[at : at + 1], [at])]
    rises = [[(at, change) for at in offsets if (change := one.add(losses[at], at))] for one, _ in watched]
    found: list[tuple[int, Any]] = []
    raised: list[list[tuple[int, ChangePoint]]] = [[], []]
    start = 0
    while start < 1_800:
        stop = start + int(draw.integers(1, 400))
        part = offsets[start:stop]
        found += [(start + at, each) for at, each in together.add(rows[start:stop], part)]
        for changes, (_, other) in zip(raised, watched, strict=True):
            changes += [(start + at, change) for at, change in other.add_all(losses[start:stop], part)]
        start = stop
    assert found == shifts != [] and raised == rises and all(rises)
    assert save(dict(alone.tensors())) == save(dict(together.tensors()))
    assert all(one.numbers() == other.numbers() for one, other in watched)


@pytest.mark.parametrize("seed", first_of(range(20)))
def test_the_bound_of_the_distances_is_never_exceeded(seed: int) -> None:
    placed = np.random.default_rng(seed).normal(0, 1, (12, 600))
    placed[:, 500:] += seed / 20
    placed = np.round(placed, 1) if seed % 2 else placed  # many equal numbers
    assert (bound_distances(placed, 500) >= kolmogorov_smirnov(placed, 500)).all()


def test_entries_that_are_observed_together_raise_the_same_alarms(log: list[Event]) -> None:
    late = create_training("watch")
    late.observe_together = 256
    for entry in log:
        late.apply([entry])
    assert in_bytes(late.state()) == in_bytes(apply_all(log, create_training("watch"), 1).state())


# the monitor of a model


def text_entry(offset: int, label: str, choice: str | None, shift: int = 0) -> Event:
    features = np.clip(np.random.default_rng(offset).normal(shift, 26, 384), -127, 127).astype(np.int8)
    return Event(str(offset), "label", features.tobytes(), label, choice=choice, offset=offset)


def raise_alarms(entries: Sequence[Event]) -> list[Alarm]:
    monitor = DriftMonitor("classifier", {"input": "text"})
    return [alarm for entry in entries for alarm in monitor.observe(entry)]


def test_an_alarm_names_the_class_that_changed() -> None:
    labels = [f"l{offset % 10}" for offset in range(1_500)]
    entries = [
        text_entry(n, label, "other" if label == "l3" and n >= 1_000 else label) for n, label in enumerate(labels)
    ]
    alarms = [alarm for alarm in raise_alarms(entries) if alarm.what == "class"]
    assert {alarm.label for alarm in alarms} == {"l3"}
    assert 900 <= alarms[0].since <= 1_050 < alarms[0].offset < 1_400
    assert alarms[0].before == 0 and alarms[0].size == alarms[0].after > 0.5


def test_features_are_monitored_without_labels_or_answers() -> None:
    entries = [text_entry(n, "", None, shift=0 if n < 900 else 6) for n in range(1_300)]
    assert {alarm.what for alarm in raise_alarms(entries)} == {"features"}


def test_adding_replies_raises_no_alarm() -> None:
    entries = [text_entry(n, "", None, shift=0 if n < 900 else 6) for n in range(1_300)]
    assert raise_alarms([replace(e, id=f"added:{e.offset}#0", text="an example") for e in entries]) == []


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
def test_only_feedback_on_an_answer_counts_as_a_loss(event: Event, loss: int | None) -> None:
    monitor = DriftMonitor("ranker", {})
    monitor.observe(event.at(1))
    assert (monitor.losses.count, monitor.losses.ones) == ((0, 0) if loss is None else (1, loss))


@pytest.mark.parametrize(("kind", "options"), [("river", {}), ("classifier", {"input": "table"}), ("ranker", {})])
def test_inputs_that_are_not_numbers_raise_no_alarm(kind: str, options: Options) -> None:
    monitor = DriftMonitor(kind, options)
    for offset in range(REFERENCE):
        assert monitor.observe(Event("e", "label", b'{"x":1.0}', "a", choice="a", offset=offset)) == []


# in a training state


def swapped_stream(count: int, seed: int = 0) -> Iterator[Event]:
    """Two classes whose labels are swapped after SWAPPED_AT."""
    rng = np.random.default_rng(seed)
    for offset in range(1, count + 1):
        side = int(rng.integers(2))
        label = "ab"[side if offset <= SWAPPED_AT else 1 - side]
        yield Event(f"e{offset}", "label", rng.normal(2.0 * side - 1, 0.6, 3).tobytes(), label, offset=offset)


def add_choices(entries: Sequence[Event], drift: Drift = "act", options: Options = VECTOR) -> list[Event]:
    """Add the choices of a model that learns the entries."""
    training, answered = create_training(drift, options), []
    for entry in entries:
        choice = training.model.predict([entry.features])[0].choice
        answered.append(replace(entry, choice=choice))
        training.apply(answered[-1:])
    return answered


def create_training(drift: Drift = "act", options: Options = VECTOR, history: Sequence[Event] = ()) -> TrainingState:
    return TrainingState(
        "classifier", options, "cpu", lambda until: (e for e in history if e.offset <= until), drift=drift
    )


def in_bytes(state: State) -> dict[str, bytes]:
    return {name: save(dict(part.tensors)) for name, part in state.items()}


@pytest.fixture(scope="module")
def log() -> list[Event]:
    return add_choices(list(swapped_stream(1_400)))


def apply_all(log: Sequence[Event], training: TrainingState, size: int) -> TrainingState:
    for start in range(0, len(log), size):
        training.apply(log[start : start + size])
    return training


def test_acting_on_drift_recovers_faster_than_watching(log: list[Event]) -> None:
    def count_right(entries: Sequence[Event]) -> int:
        return sum(entry.choice == entry.label for entry in entries[SWAPPED_AT + 100 :])

    assert count_right(log) > 1.5 * count_right(add_choices(list(swapped_stream(1_400)), "watch"))


def test_the_state_does_not_depend_on_batches(log: list[Event]) -> None:
    states = [in_bytes(apply_all(log, create_training(), size).state()) for size in (1, 7, 64, 1_400)]
    recent = {name for name in states[0] if name.startswith("recent-")}
    assert create_training().state().keys() | {"windows", "adaptation"} | recent == states[0].keys() and recent
    assert all(state == states[0] for state in states[1:])


@pytest.mark.few(2)
@pytest.mark.parametrize("cut", [100, SWAPPED_AT, 870, 1_100])
def test_a_resumed_training_state_equals_an_uninterrupted_one(log: list[Event], cut: int) -> None:
    uninterrupted, resumed = apply_all(log, create_training(), 50), create_training()
    resumed.restore(apply_all(log[:cut], create_training(), 50).state())
    apply_all(log[cut:], resumed, 50)
    assert resumed.monitor.alarms == uninterrupted.monitor.alarms != []
    assert in_bytes(resumed.state()) == in_bytes(uninterrupted.state())


def test_the_state_hash_does_not_depend_on_the_drift_setting(log: list[Event]) -> None:
    off, watch, act = (apply_all(log, create_training(drift), 64) for drift in ("off", "watch", "act"))
    assert off.model.fingerprint() == watch.model.fingerprint() == act.model.fingerprint()
    assert "drift" not in off.state() and off.monitor.alarms == []
    assert watch.monitor.alarms == act.monitor.alarms != []
    assert in_bytes(off.model.state()) == in_bytes(watch.model.state()) != in_bytes(act.model.state())


def test_a_model_without_windows_accepts_acting_on_drift(log: list[Event]) -> None:
    plain: Options = {"input": "vector", "size": 3, "scale": 4.0, "recent": 0}
    acted, watched = (apply_all(log, create_training(drift, plain), 64) for drift in ("act", "watch"))
    assert in_bytes(acted.state()) == in_bytes(watched.state())


@pytest.mark.few(2)
@pytest.mark.parametrize("head", ["slda", "ridge", "rp_ridge", "best"])
def test_every_head_is_right_again_soon_after_all_labels_are_exchanged(head: str) -> None:
    options: Options = {"input": "vector", "size": 3, "scale": 4.0, "head": head, "random_features": 64}
    answered = add_choices(list(swapped_stream(SWAPPED_AT + 140)), options=options)
    assert sum(e.choice == e.label for e in answered[-100:]) >= 90
    monitor = apply_all(answered, create_training("act", options), 64).monitor
    assert len(monitor.alarms) == monitor.alarm_count == 1, "alarms of one change are one"
    assert abs(monitor.alarms[0].since - SWAPPED_AT) <= 3
    killed = create_training("act", options)
    killed.restore(apply_all(answered[: SWAPPED_AT + 25], create_training("act", options), 7).state())
    assert (
        in_bytes(apply_all(answered[SWAPPED_AT + 25 :], killed, 11).model.state())["adaptation"]
        == in_bytes(apply_all(answered, create_training("act", options), 64).model.state())["adaptation"]
    )


def test_what_was_held_out_before_a_change_does_not_judge_the_model_that_adapted(log: list[Event]) -> None:
    acted, watched = (apply_all(log, create_training(drift), 64) for drift in ("act", "watch"))
    since = acted.monitor.raised[-1].since
    assert min(item.offset for item in acted.held_out) >= since > min(item.offset for item in watched.held_out)


def as_row(vector: bytes) -> bytes:
    return json.dumps({f"x{n}": value for n, value in enumerate(np.frombuffer(vector).tolist())}).encode()


@pytest.mark.parametrize(
    ("kind", "options", "follows"),
    [
        ("classifier", {**VECTOR, "drift_window": 0, "recent": 0}, False),
        ("majority", VECTOR_INPUT, False),
        ("river", {"estimator": "softmax"}, True),
        ("majority", {**VECTOR_INPUT, "challenger": {"kind": "knn"}}, True),
    ],
)
def test_what_was_held_out_before_a_change_judges_a_model_that_cannot_follow_it(
    log: list[Event], kind: str, options: Options, follows: bool
) -> None:
    if kind == "river":
        log = [replace(entry, features=as_row(entry.features)) for entry in log]
    training = apply_all(log, TrainingState(kind, options, "cpu", lambda until: iter(()), drift="act"), 64)
    since = training.monitor.raised[-1].since
    assert (min(item.offset for item in training.held_out) >= since) == follows


def test_the_losses_of_a_class_that_stand_still_raise_no_alarm() -> None:
    """With a probability of 0.01 these did: one of 24 classes of 7,500 losses each."""
    losses = (np.random.default_rng([11, 10]).random(7_500) < 0.1).astype(int).tolist()
    assert Adwin(0.01, clock=0).add_all(losses, range(7_500))
    assert not Adwin(CLASS_DELTA, clock=0).add_all(losses, range(7_500))


def test_the_alarms_of_a_gradual_change_are_one(log: list[Event]) -> None:
    rng = np.random.default_rng(3)
    entries = [
        replace(old, label="ab"[old.label == "a"])
        if SWAPPED_AT - 200 < old.offset <= SWAPPED_AT and rng.random() < (old.offset - SWAPPED_AT + 200) / 200
        else replace(old, choice=None)
        for old in log
    ]
    monitor = apply_all(add_choices(entries), create_training(), 64).monitor
    assert len(monitor.raised) > monitor.alarm_count == 1
    assert SWAPPED_AT - 200 < monitor.alarms[0].offset <= SWAPPED_AT


@pytest.mark.parametrize("probability", [0.02, 0.1, 0.3])
def test_a_cusum_raises_no_alarm_in_15_000_and_one_within_25_wrong_answers(probability: float) -> None:
    cusum = Cusum()
    losses = draw_losses([(15_000, probability)], 5)
    assert all(cusum.add(loss, f"c{n % 7}", n) is None for n, loss in enumerate(losses))
    found = dict[int, ChangePoint]()
    for n in range(25):
        if (change := cusum.add(1, f"c{n % 7}", 15_000 + n)) is not None:
            assert cusum.numbers() == Cusum().numbers()  # what came before is forgotten
            found[15_000 + n] = change
    [(last, change)] = found.items()
    assert abs(change.since - 15_000) <= 10 and change.after > 0.6 > change.before
    assert change.window == last + 1 - change.since


def test_detectors_are_not_among_the_serving_parts(log: list[Event]) -> None:
    state = apply_all(log[:300], create_training(), 50).state()
    assert isinstance(state["drift"], StatePart) and not state["drift"].serving
    assert "drift" not in create_training().state(serving_only=True)


def test_a_refused_entry_still_counts_as_a_loss(log: list[Event]) -> None:
    bad = replace(log[5], features=b"short")
    entries = [*log[:5], bad, *log[6:]]
    first = apply_all(entries, create_training(), 50)
    second = create_training()
    second.refused = dict(first.refused)
    assert list(first.refused) == [6]
    assert in_bytes(apply_all(entries, second, 50).state()) == in_bytes(first.state())


def test_an_alarm_remains_after_a_retraction_that_replays_the_log(log: list[Event]) -> None:
    fitted: Options = {"input": "vector", "size": 3, "drift_window": 32}
    retraction = Event("r", "retraction", target=log[50], offset=1_401)
    history = [*log, retraction]
    training = apply_all(history, create_training("act", fitted, history), 64)
    expected, monitor = create_training("off", fitted), DriftMonitor("classifier", fitted)
    for entry in log:  # the same alarms at the same offsets, without the retracted event
        if entry.offset != log[50].offset:
            expected.apply([entry])
        for alarm in monitor.observe(entry):
            if alarm.what != "features":
                expected.model.drifted(alarm.label, alarm.since)
    assert training.model.fingerprint() == expected.model.fingerprint()
    assert in_bytes(training.model.state()) == in_bytes(expected.model.state())


# in a learner


def test_a_killed_learner_raises_the_same_alarms_and_stores_each_once(
    create_scene: CreateScene, log: list[Event]
) -> None:
    scene = create_scene(options=VECTOR)
    scene.learner = scene.start_learner(durable_every_s=1e9, drift="act")
    scene.learn(*(entry for entry in log[:820]))
    scene.learn(*(entry for entry in log[820:1_000]))
    stored = scene.workspace.store.read(lambda c: load_drift_alarms(c, "m", 100))
    scene.learner = scene.start_learner(drift="act")  # it resumes from the first publication
    scene.learn(*(entry for entry in log[1_000:]))
    uninterrupted = apply_all(log, create_training(), 256)
    assert in_bytes(scene.learner.training.state()) == in_bytes(uninterrupted.state())
    rows = scene.workspace.store.read(lambda c: load_drift_alarms(c, "m", 100))
    assert [(row.offset, row.what) for row in reversed(rows)] == [
        (a.offset, a.what) for a in uninterrupted.monitor.alarms
    ]
    assert stored and rows[-len(stored) :] == stored
    assert scene.snapshots.folder.manifests()[0].metrics["drift_alarms"] == len(rows)


def test_the_version_that_adapted_goes_live_past_the_gate(create_scene: CreateScene, log: list[Event]) -> None:
    scene = create_scene(options=VECTOR)
    scene.learner = scene.start_learner(drift="act")
    for start in range(0, SWAPPED_AT + 100, 50):
        scene.learn(*(entry for entry in log[start : start + 50]))
    assert scene.snapshots.folder.manifests()[0].learned_until == SWAPPED_AT + 100
