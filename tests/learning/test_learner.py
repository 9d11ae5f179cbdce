"""The learner's loop on a real store and real snapshots: what it learns, sets aside, refuses and resumes."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from online.errors import EncoderMoved, Unavailable
from online.learning.learner import Learner, Pupil
from online.models import KINDS, Example, Options, create, unpacked
from online.models.stack import determinism_domain
from online.quarantine import QuarantineRow, begin
from online.schemas import Entry, Event, Target
from online.settings import ModelSettings, Settings
from online.store import add_feedback, begin_move, feedback_of, now, refused_offsets
from online.stream import append_events
from online.workspace import Workspace

VECTOR: Options = {"input": "vector", "size": 3, "scale": 4.0}


def vector_event(id: str, label: str, seed: int) -> Event:
    centre = {"a": -1.0, "b": 1.0}.get(label, 0.0)
    values = np.random.default_rng(seed).normal(centre, 0.5, 3)
    return Event(id, "label", values.tobytes(), label, choice="a")


def events(count: int, start: int = 0) -> list[Event]:
    return [vector_event(f"e{n}", "ab"[n % 2], n) for n in range(start, start + count)]


def text_features(seed: int) -> bytes:
    vector = np.random.default_rng(seed).normal(size=384)
    return np.clip(np.rint(512 * vector / np.linalg.norm(vector)), -127, 127).astype(np.int8).tobytes()


class Scene:
    """A workspace with one model, and a learner that is driven step by step."""

    def __init__(self, folder: Path, kind: str = "classifier", options: Options = VECTOR) -> None:
        spec = ModelSettings.model_validate({"name": "m", "kind": kind, "options": options})
        self.workspace = Workspace(Settings(state=folder / "state", models=(spec,)))
        self.kind, self.options = kind, self.workspace.options(spec)
        self.stream, self.snapshots = self.workspace.sql_stream("m"), self.workspace.snapshots("m")
        self.learner = self.started()

    def started(self, **more: Any) -> Learner:
        """A learner as a new process would make it."""
        store = self.workspace.store
        settings = {"publish_every_ms": 0.0, "durable_every_s": 1e-9, **more}
        made = Learner(self.kind, self.options, self.snapshots, self.stream, store, **settings)
        made.start()
        return made

    def learn(self, *happened: Event) -> None:
        for event in happened:
            self.stream.append(event)
        while self.learner.pupil.learned_until < self.stream.head():
            self.learner.step()

    def live_until(self) -> int:
        live = self.snapshots.live()
        assert live is not None
        return self.snapshots.manifest(live.version).learned_until

    def fingerprint_without(self, *gone: str) -> str:
        """Of a model that never saw the events named in `gone`, nor any retraction."""
        model = create(self.kind, self.options)
        for entry in self.stream.read(0, 10_000):
            event = entry.event
            if event.kind != "retraction" and event.id not in gone:
                model.learn([Example(entry.offset, event.kind, event.features, event.label, event.text, event.reward)])
        return model.fingerprint()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.workspace.store.close()


def retraction(stream: Any, offset: int) -> Event:
    target = stream.read(offset - 1, 1)[0]
    return Event(
        f"{target.event.id}#retraction", "retraction", target.event.features, target=Target(offset, target.event)
    )


def test_a_new_learner_publishes_a_first_version_that_has_learned_nothing(scene: Scene) -> None:
    assert scene.snapshots.versions() == [1]
    assert scene.live_until() == 0


def test_what_is_appended_is_learned_published_and_live(scene: Scene) -> None:
    scene.learn(*events(10))
    assert scene.live_until() == 10
    assert scene.snapshots.manifests()[0].state_sha256 == scene.fingerprint_without()


def test_the_manifest_counts_what_was_answered_right(scene: Scene) -> None:
    scene.learn(*events(10))
    counts = {"events": 10, "rated": 10, "right": 5, "drift_alarms": 0}
    assert scene.snapshots.manifests()[0].metrics.items() >= counts.items()


def test_the_manifest_names_the_domain_of_its_bits(scene: Scene) -> None:
    scene.learn(*events(3))
    assert scene.snapshots.manifests()[0].determinism_domain == determinism_domain("cpu")


def test_a_tower_takes_back_by_learning_anew_and_resumes_inside_a_micro_batch(tmp_path: Path) -> None:
    options: Options = {"input": "vector", "size": 3, "hidden": [8], "batch": 4}
    scene = Scene(tmp_path, "tower", options)
    scene.learn(*events(10))  # two wait
    scene.learner = scene.started()
    scene.learn(*events(20, start=10))
    scene.learn(retraction(scene.stream, 5))
    assert scene.learner.pupil.model.fingerprint() == scene.fingerprint_without("e4")


def test_a_regressors_manifest_counts_no_number_as_right_or_wrong(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "regressor", {**VECTOR, "target_scale": 64.0})
    scene.learn(*(replace(event, label="7.5", choice="7.0") for event in events(10)))
    metrics = scene.snapshots.manifests()[0].metrics
    assert (metrics["events"], metrics["rated"], set(metrics)) == (10, 10, {"events", "rated", "noise", "drift_alarms"})
    scene.workspace.store.close()


@pytest.mark.parametrize("kind", ["classifier", "river"])
def test_a_learner_that_dies_between_durable_snapshots_ends_where_it_would_have(tmp_path: Path, kind: str) -> None:
    options = VECTOR if kind == "classifier" else {}
    scene = Scene(tmp_path, kind, options)
    make = events if kind == "classifier" else table_events
    scene.learner = scene.started(durable_every_s=1e9)
    scene.learn(*make(20))
    scene.learner = scene.started(durable_every_s=1e9)
    assert scene.learner.pupil.learned_until == 20  # the first publication is always durable
    scene.learn(*make(1, 20))
    scene.learn(*make(14, 21))
    published = scene.snapshots.manifests()[0].version
    scene.learner = scene.started()
    assert scene.learner.pupil.learned_until == 21
    scene.learn(*make(5, 35))
    assert scene.learner.pupil.model.fingerprint() == scene.fingerprint_without()
    assert scene.snapshots.manifests()[0].version > published
    assert scene.live_until() == 40
    scene.workspace.store.close()


def test_a_state_that_takes_long_to_write_is_made_durable_less_often(scene: Scene) -> None:
    seconds = count()  # every look at the clock takes a second
    scene.learner = scene.started(clock=lambda: float(next(seconds)))
    for number in range(12):
        scene.learn(*events(1, number))
    durable = [manifest.durable for manifest in scene.snapshots.manifests()]
    assert 2 < sum(durable) < len(durable)
    assert scene.live_until() == 12


def test_a_restarted_learner_never_makes_an_older_state_live(scene: Scene) -> None:
    scene.learner = scene.started(durable_every_s=1e9)
    scene.learn(*events(20))
    scene.learn(*events(20, 20))
    restarted = scene.started(batch=5)
    while restarted.pupil.learned_until < 40:
        restarted.step()
        assert scene.live_until() == 40


def test_an_event_that_cannot_be_learned_is_set_aside_with_its_reason_and_learning_goes_on(scene: Scene) -> None:
    row = {"model": "m", "id": "bad", "offset": 6, "content": "{}", "created_at": "t", "status": "accepted"}
    scene.workspace.store.submit(lambda c: add_feedback(c, [row])).result()
    scene.learn(*events(5), Event("bad", "label", b"too short", "a"), *events(5, 5))
    fate = scene.workspace.store.read(lambda c: feedback_of(c, "m", ["bad"]))["bad"]
    assert fate.status == "refused" and "9 bytes where 24 are expected" in fate.refusal
    assert scene.live_until() == 11
    assert scene.learner.pupil.model.fingerprint() == scene.fingerprint_without("bad")


def test_a_restarted_learner_remembers_what_was_set_aside(scene: Scene) -> None:
    scene.learn(*events(3), Event("bad", "label", b"", "a"))
    assert list(scene.started().pupil.refused) == [4]


def table_events(count: int, start: int = 0) -> list[Event]:
    rows = np.random.default_rng(start).normal(size=(count, 2))
    return [
        Event(f"t{start + n}", "label", f'{{"x":{x!r},"y":{y!r}}}'.encode(), "ab"[x > 0])
        for n, (x, y) in enumerate(rows.tolist())
    ]


@pytest.mark.parametrize("label", ["explode", "nan"])
def test_an_event_that_breaks_the_model_is_found_and_set_aside(
    tmp_path: Path, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "river", "tests.learning.brittle:Brittle")
    scene = Scene(tmp_path, "river", {})
    poison = Event("poison", "label", b"{}", label)
    scene.learn(*table_events(30), poison, *table_events(30, 30))
    refused = scene.workspace.store.read(lambda c: refused_offsets(c, "m", scene.learner.recipe))
    assert list(refused) == [31]
    assert ("RuntimeError: exploded" if label == "explode" else "not finite") in refused[31]
    scene.learner.step()  # the next turn of the loop publishes what is left
    assert scene.live_until() == 61
    assert scene.learner.pupil.model.fingerprint() == scene.fingerprint_without("poison")
    scene.workspace.store.close()


@pytest.mark.parametrize("kind", ["classifier", "river"])
def test_taking_one_back_leaves_the_state_of_never_having_seen_it(tmp_path: Path, kind: str) -> None:
    scene = Scene(tmp_path, kind, VECTOR if kind == "classifier" else {})
    make = events if kind == "classifier" else table_events
    happened = make(20)
    scene.learn(*happened)
    scene.learn(retraction(scene.stream, 7))
    scene.learn(*make(5, 20))
    assert scene.learner.pupil.model.fingerprint() == scene.fingerprint_without(happened[6].id)
    scene.workspace.store.close()


def test_taking_back_what_was_never_learned_changes_nothing(scene: Scene) -> None:
    scene.learn(*events(4), Event("bad", "label", b"", "a"))
    before = scene.learner.pupil.model.fingerprint()
    scene.learn(retraction(scene.stream, 5))
    assert scene.learner.pupil.model.fingerprint() == before


def test_after_a_roll_back_only_something_newly_learned_goes_live(scene: Scene) -> None:
    scene.learn(*events(5))
    old = scene.snapshots.manifests()[0].version
    scene.learn(*events(5, 5))
    scene.snapshots.roll_back(old, scene.learner.recipe)
    scene.learner = scene.started()
    scene.learner.step()
    assert scene.live_until() == 5
    scene.learn(*events(1, 10))
    assert scene.live_until() == 11


def test_other_options_start_over_from_the_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*events(12))
    scene.workspace.store.close()
    changed = Scene(tmp_path, options={**VECTOR, "shrinkage": 3.0})
    changed.learn(*events(1, 12))
    assert changed.live_until() == 13
    assert changed.learner.pupil.model.fingerprint() == changed.fingerprint_without()
    changed.workspace.store.close()


def test_options_that_come_back_are_live_again_without_a_new_event(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*events(12))
    scene.workspace.store.close()
    other = Scene(tmp_path, options={**VECTOR, "shrinkage": 3.0})
    other.learn(*events(1, 12))
    other.workspace.store.close()
    back = Scene(tmp_path)
    live = back.snapshots.live()
    assert live is not None and back.snapshots.manifest(live.version).recipe == back.learner.recipe
    back.workspace.store.close()


def test_what_other_options_refused_is_learned_by_options_that_can(tmp_path: Path) -> None:
    narrow = Scene(tmp_path, options={**VECTOR, "max_labels": 1})
    narrow.learn(*events(6))
    assert len(narrow.learner.pupil.refused) == 3
    narrow.workspace.store.close()
    wide = Scene(tmp_path)
    wide.learn(*events(1, 6))
    assert wide.learner.pupil.model.fingerprint() == wide.fingerprint_without()
    wide.workspace.store.close()


def test_a_live_file_that_is_gone_or_damaged_is_made_anew_at_the_next_start(scene: Scene) -> None:
    scene.learn(*events(5))
    for damage in (None, "nonsense", "999"):
        (scene.snapshots.folder / "LIVE").unlink()
        if damage is not None:
            (scene.snapshots.folder / "LIVE").symlink_to(damage)
        scene.learner = scene.started()
        assert scene.live_until() == 5


def test_a_snapshot_that_cannot_be_restored_is_passed_over_for_the_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "river", {})
    scene.learn(*table_events(8))
    whole = scene.learner.pupil.model.fingerprint()
    scene.options = {**scene.options, "key": "ab" * 32}  # another key: none of the states is signed by it
    scene.learner = scene.started()
    assert scene.learner.pupil.learned_until == 0
    scene.learn()
    assert scene.learner.pupil.model.fingerprint() == whole
    scene.workspace.store.close()


def text_events(count: int, start: int = 0) -> list[Event]:
    return [Event(f"s{n}", "label", text_features(n), "ab"[n % 2]) for n in range(start, start + count)]


def test_a_log_of_another_encoder_is_not_learned(tmp_path: Path) -> None:
    scene = Scene(tmp_path, options={})
    scene.learn(*text_events(4))
    scene.workspace.store.submit(lambda c: begin_move(c, "m", "f" * 64, 4)).result()
    scene.stream.append(text_events(1, 4)[0])
    checked = scene.workspace.sql_stream("m", "")
    with pytest.raises(EncoderMoved):
        checked.read(4, 10)
    checked.close()
    scene.learner.pupil.learned_until = 5  # nothing is left to read: it is noticed nevertheless
    with pytest.raises(EncoderMoved):
        scene.learner.step()
    scene.workspace.store.close()


def test_with_another_encoder_nothing_is_published_that_knows_less_than_the_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path, options={})
    scene.learn(*text_events(12))
    before = scene.snapshots.live()
    scene.workspace.store.submit(lambda c: begin_move(c, "m", "f" * 64, 12)).result()
    scene.options = {"encoder": "f" * 64}
    scene.learner = scene.started(batch=5)
    for _ in range(2):
        scene.learner.step()
        assert scene.snapshots.live() == before
    scene.learner.step()
    live = scene.snapshots.live()
    assert live is not None and scene.snapshots.manifest(live.version).recipe == scene.learner.recipe
    assert scene.live_until() == 12
    scene.workspace.store.close()


def test_a_stream_with_a_gap_is_waited_for_and_nothing_is_left_out(scene: Scene) -> None:
    scene.learn(*events(3))
    with scene.workspace.store.durable_writer.begin() as connection:
        append_events(connection, "m", events(3, 3))
        connection.execute(text('UPDATE event SET "offset" = "offset" + 100 WHERE "offset" > 4'))
    scene.learner.batch = 10
    with pytest.raises(Unavailable, match="goes on with offset 105 where 5 is due"):
        scene.learner.step()
    assert scene.learner.pupil.learned_until == 3


def test_many_events_that_break_the_model_are_all_found_and_the_others_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "river", "tests.learning.brittle:Brittle")
    scene = Scene(tmp_path, "river", {})
    labels = ["explode" if n % 4 == 0 else "fine" for n in range(40)]
    scene.learn(*(Event(f"x{n}", "label", b"{}", label) for n, label in enumerate(labels)))
    assert len(scene.learner.pupil.refused) == 10
    assert unpacked(scene.learner.pupil.model.state()["all"].tensors["learned"]) == ["fine"] * 30
    scene.workspace.store.close()


def test_old_versions_are_pruned_while_learning(scene: Scene) -> None:
    for n in range(70):
        scene.learn(*events(1, n))
    assert len(scene.snapshots.versions()) <= 2 * 20 + 32


def test_entries_cut_differently_end_in_the_same_state() -> None:
    entries = [Entry(n + 1, event) for n, event in enumerate(events(300))]
    ends = []
    for cut in (1, 7, 300):
        pupil = Pupil("classifier", {"input": "vector", "size": 3}, "cpu", lambda until: [])
        for start in range(0, 300, cut):
            pupil.apply(entries[start : start + cut])
        ends.append(pupil.model.fingerprint())
    assert len(set(ends)) == 1


def test_what_the_guard_began_before_it_was_killed_is_carried_out_at_the_next_start(scene: Scene) -> None:
    scene.learn(*events(10))
    good = scene.snapshots.live()
    assert good is not None
    scene.learn(*events(10, start=10))
    row = QuarantineRow(
        model="m",
        offset=20,
        since=11,
        until=None,
        reason="worse",
        rolled_back_to=good.version,
        created_at=now(),
        ended_at=None,
        outcome=None,
    )
    assert scene.workspace.store.submit(lambda connection: begin(connection, row)).result()
    scene.started()
    assert scene.snapshots.frozen() is None  # whoever is not guarded leaves it
    for _ in range(2):  # and the second start finds nothing to do
        scene.started(guarded=True)
        frozen, live = scene.snapshots.frozen(), scene.snapshots.live()
        assert frozen is not None and frozen.reason == "the guard: worse"
        assert live is not None and live.version == good.version
