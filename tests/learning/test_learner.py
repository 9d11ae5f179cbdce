"""The learner's loop on a real store and real snapshots: learning, refusing events, publishing and resuming."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from sqlalchemy import text

from online.errors import EncoderMoved
from online.learning.training_state import TrainingState
from online.models import KINDS, Options, unpack_json
from online.models.devices.determinism import determinism_domain
from online.schemas.events import Event
from online.store import now
from online.store.encoder_moves import begin_move
from online.store.events import append_events
from online.store.feedback import add_feedback, load_feedback
from online.store.quarantine import QuarantineRow, begin
from online.store.refusals import group_refusals, load_refusals
from online.telemetry import event_fields
from tests.learning.conftest import CreateScene
from tests.learning.scene import VECTOR, Scene, retraction, text_features, vector_events

FAILING = replace(KINDS["river"], path="tests.learning.failing_models:FailingModel")


def table_events(count: int, start: int = 0) -> list[Event]:
    rows = np.random.default_rng(start).normal(size=(count, 2))
    return [
        Event(f"t{start + n}", "label", f'{{"x":{x!r},"y":{y!r}}}'.encode(), "ab"[x > 0])
        for n, (x, y) in enumerate(rows.tolist())
    ]


def text_events(count: int, start: int = 0) -> list[Event]:
    return [Event(f"s{n}", "label", text_features(n), "ab"[n % 2]) for n in range(start, start + count)]


OPTIONS: dict[str, Options] = {"classifier": VECTOR, "river": {}}
EVENTS = {"classifier": vector_events, "river": table_events}


def test_a_new_learner_publishes_a_first_version_that_has_learned_nothing(scene: Scene) -> None:
    assert scene.snapshots.folder.versions() == [1]
    assert scene.live_until() == 0


def test_an_appended_event_is_learned_published_and_live(scene: Scene) -> None:
    scene.learn(*vector_events(10))
    assert scene.live_until() == 10
    assert scene.snapshots.folder.manifests()[0].state_sha256 == scene.fingerprint_without()


def test_the_manifest_counts_right_answers(scene: Scene) -> None:
    scene.learn(*vector_events(10))
    counts = {"events": 10, "rated": 10, "right": 5, "drift_alarms": 0}
    assert scene.snapshots.folder.manifests()[0].metrics.items() >= counts.items()


def test_the_manifest_names_the_determinism_domain(scene: Scene) -> None:
    scene.learn(*vector_events(3))
    assert scene.snapshots.folder.manifests()[0].determinism_domain == determinism_domain("cpu")


def test_a_tower_retracts_by_a_replay_and_resumes_within_a_micro_batch(create_scene: CreateScene) -> None:
    scene = create_scene("tower", {"input": "vector", "size": 3, "hidden": [8], "batch": 4})
    scene.learn(*vector_events(10))  # two of them wait for the end of their micro-batch
    scene.learner = scene.start_learner()
    scene.learn(*vector_events(20, start=10))
    scene.learn(retraction(scene.stream, 5))
    assert scene.fingerprint() == scene.fingerprint_without("e4")


def test_the_manifest_of_a_regressor_counts_no_right_answers(create_scene: CreateScene) -> None:
    scene = create_scene("regressor", {**VECTOR, "target_scale": 64.0})
    scene.learn(*(structs.replace(event, label="7.5", choice="7.0") for event in vector_events(10)))
    metrics = scene.snapshots.folder.manifests()[0].metrics
    assert (metrics["events"], metrics["rated"], set(metrics)) == (10, 10, {"events", "rated", "noise", "drift_alarms"})


@pytest.mark.parametrize("kind", ["classifier", "river"])
def test_a_learner_restarted_between_durable_snapshots_ends_in_the_same_state(
    create_scene: CreateScene, kind: str
) -> None:
    scene, make_events = create_scene(kind, OPTIONS[kind]), EVENTS[kind]
    scene.learner = scene.start_learner(durable_every_s=1e9)
    scene.learn(*make_events(20))
    scene.learner = scene.start_learner(durable_every_s=1e9)
    assert scene.learner.training.learned_until == 20  # the first publication is always durable
    scene.learn(*make_events(1, 20))
    scene.learn(*make_events(14, 21))
    published = scene.snapshots.folder.manifests()[0].version
    scene.learner = scene.start_learner()
    assert scene.learner.training.learned_until == 21
    scene.learn(*make_events(5, 35))
    assert scene.fingerprint() == scene.fingerprint_without()
    assert scene.snapshots.folder.manifests()[0].version > published
    assert scene.live_until() == 40


def test_a_state_that_takes_long_to_write_is_written_less_often(scene: Scene) -> None:
    seconds = count(step=100)  # the clock advances by so many seconds at each reading
    scene.learner = scene.start_learner(clock=lambda: float(next(seconds)))
    for number in range(12):
        scene.learn(*vector_events(1, number))
    durable = [manifest.durable for manifest in scene.snapshots.folder.manifests()]
    assert 2 < sum(durable) < len(durable)
    assert scene.live_until() == 12


def test_a_restarted_learner_never_makes_an_older_state_live(scene: Scene) -> None:
    scene.learner = scene.start_learner(durable_every_s=1e9)
    scene.learn(*vector_events(20))
    scene.learn(*vector_events(20, 20))
    restarted = scene.start_learner(batch=5)
    while restarted.training.learned_until < 40:
        restarted.step()
        assert scene.live_until() == 40


def test_an_event_that_cannot_be_learned_is_refused_with_a_reason_and_learning_continues(scene: Scene) -> None:
    row = {"model": "m", "id": "bad", "offset": 6, "content": "{}", "created_at": "t", "status": "accepted"}
    scene.workspace.store.submit(lambda c: add_feedback(c, [row])).result()
    scene.learn(*vector_events(5), Event("bad", "label", b"too short", "a"), *vector_events(5, 5))
    feedback = scene.workspace.store.read(lambda c: load_feedback(c, "m", ["bad"]))["bad"]
    assert feedback.status == "refused" and "9 bytes where 24 are expected" in (feedback.refusal or "")
    assert scene.live_until() == 11
    assert scene.fingerprint() == scene.fingerprint_without("bad")


def test_many_refused_events_are_one_line_with_their_count(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.learner.setup = replace(scene.learner.setup, batch=4)
    with caplog.at_level("WARNING"):
        for n in range(30):
            scene.stream.append(Event(f"bad{n}", "label", b"x" * n, "a"))
        scene.learn()
        scene.learn(*(Event(f"late{n}", "label", b"", "a") for n in range(5)))
        scene.learner.refusals.flush()
    lines = [event_fields(record) for record in caplog.records if record.getMessage() == "events refused"]
    assert [line["count"] for line in lines] == [29, 5]  # the one of 24 bytes is learned
    assert (lines[0]["first"], lines[0]["last"]) == (1, 30) and "0 bytes where 24 are" in str(lines[0]["reason"])


def test_the_refusals_of_a_model_are_grouped_by_reasons_that_differ_in_values_only(scene: Scene) -> None:
    scene.learn(*(Event(f"bad{n}", "label", b"x" * n, "a") for n in range(1, 8)))
    groups = scene.workspace.store.read(lambda c: group_refusals(c, "m", scene.learner.recipe))
    assert [(each.count, each.first_offset, each.last_offset) for each in groups] == [(7, 1, 7)]
    assert "7 bytes where 24 are expected" in groups[0].reason


def test_a_restarted_learner_remembers_refused_events(scene: Scene) -> None:
    scene.learn(*vector_events(3), Event("bad", "label", b"", "a"))
    assert list(scene.start_learner().training.refused) == [4]


@pytest.mark.parametrize("label", ["explode", "nan"])
def test_an_event_that_breaks_the_model_is_refused(
    create_scene: CreateScene, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "river", FAILING)
    scene = create_scene("river", {})
    poison = Event("poison", "label", b"{}", label)
    scene.learn(*table_events(30), poison, *table_events(30, 30))
    refused = scene.workspace.store.read(lambda c: load_refusals(c, "m", scene.learner.recipe))
    assert list(refused) == [31]
    assert ("RuntimeError: exploded" if label == "explode" else "not finite") in refused[31]
    scene.learner.step()  # the next step publishes the rest
    assert scene.live_until() == 61
    assert scene.fingerprint() == scene.fingerprint_without("poison")


@pytest.mark.parametrize("kind", ["classifier", "river"])
def test_a_retracted_event_does_not_change_the_state(create_scene: CreateScene, kind: str) -> None:
    scene, make_events = create_scene(kind, OPTIONS[kind]), EVENTS[kind]
    events = make_events(20)
    scene.learn(*events)
    scene.learn(retraction(scene.stream, 7))
    scene.learn(*make_events(5, 20))
    assert scene.fingerprint() == scene.fingerprint_without(events[6].id)


def test_retracting_an_unlearned_event_changes_nothing(scene: Scene) -> None:
    scene.learn(*vector_events(4), Event("bad", "label", b"", "a"))
    before = scene.fingerprint()
    scene.learn(retraction(scene.stream, 5))
    assert scene.fingerprint() == before


def test_after_a_rollback_only_a_newly_learned_version_goes_live(scene: Scene) -> None:
    scene.learn(*vector_events(5))
    old = scene.snapshots.folder.manifests()[0].version
    scene.learn(*vector_events(5, 5))
    scene.snapshots.control.roll_back(old, scene.learner.recipe)
    scene.learner = scene.start_learner()
    scene.learner.step()
    assert scene.live_until() == 5
    scene.learn(*vector_events(1, 10))
    assert scene.live_until() == 11


def test_other_options_learn_the_log_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(12))
    scene.workspace.store.close()
    changed = Scene(tmp_path, options={**VECTOR, "shrinkage": 3.0})
    changed.learn(*vector_events(1, 12))
    assert changed.live_until() == 13
    assert changed.fingerprint() == changed.fingerprint_without()
    changed.workspace.store.close()


def test_restored_options_are_live_again_without_a_new_event(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(12))
    scene.workspace.store.close()
    other = Scene(tmp_path, options={**VECTOR, "shrinkage": 3.0})
    other.learn(*vector_events(1, 12))
    other.workspace.store.close()
    restored = Scene(tmp_path)
    live = restored.snapshots.folder.live()
    assert live is not None and restored.snapshots.folder.manifest(live.version).recipe == restored.learner.recipe
    restored.workspace.store.close()


def test_an_event_refused_under_other_options_is_learned_if_possible(tmp_path: Path) -> None:
    narrow = Scene(tmp_path, options={**VECTOR, "max_labels": 1})
    narrow.learn(*vector_events(6))
    assert len(narrow.learner.training.refused) == 3
    narrow.workspace.store.close()
    wide = Scene(tmp_path)
    wide.learn(*vector_events(1, 6))
    assert wide.fingerprint() == wide.fingerprint_without()
    wide.workspace.store.close()


def test_a_missing_or_damaged_live_file_is_written_again_at_the_next_start(scene: Scene) -> None:
    scene.learn(*vector_events(5))
    for damage in (None, "nonsense", "999"):
        (scene.snapshots.folder.path / "LIVE").unlink()
        if damage is not None:
            (scene.snapshots.folder.path / "LIVE").symlink_to(damage)
        scene.learner = scene.start_learner()
        assert scene.live_until() == 5


def test_a_snapshot_that_cannot_be_restored_is_replaced_from_the_log(create_scene: CreateScene) -> None:
    scene = create_scene("river", {})
    scene.learn(*table_events(8))
    fingerprint = scene.fingerprint()
    scene.options = {**scene.options, "key": "ab" * 32}  # no state is signed with another key
    scene.learner = scene.start_learner()
    assert scene.learner.training.learned_until == 0
    scene.learn()
    assert scene.fingerprint() == fingerprint


def test_a_log_of_another_encoder_is_not_learned(create_scene: CreateScene) -> None:
    scene = create_scene(options={})
    scene.learn(*text_events(4))
    scene.workspace.store.submit(lambda c: begin_move(c, "m", "f" * 64, 4)).result()
    scene.stream.append(text_events(1, 4)[0])
    stream = scene.workspace.sql_stream("m", "")
    with pytest.raises(EncoderMoved):
        stream.read(4, 10)
    stream.close()
    scene.learner.training.learned_until = 5  # the move is noticed even if there is nothing left to read
    scene.learner.training.log_digest = ""
    with pytest.raises(EncoderMoved):
        scene.learner.step()


def test_with_another_encoder_no_version_is_published_until_the_log_is_learned(create_scene: CreateScene) -> None:
    scene = create_scene(options={})
    scene.learn(*text_events(12))
    before = scene.snapshots.folder.live()
    scene.workspace.store.submit(lambda c: begin_move(c, "m", "f" * 64, 12)).result()
    scene.options = {"encoder": "f" * 64}
    scene.learner = scene.start_learner(batch=5)
    while scene.learner.training.learned_until < 12:
        assert scene.snapshots.folder.live() == before
        scene.learner.step()
    live = scene.snapshots.folder.live()
    assert live is not None and scene.snapshots.folder.manifest(live.version).recipe == scene.learner.recipe
    assert scene.live_until() == 12


def test_the_learner_waits_for_a_gap_in_the_stream_and_skips_nothing(scene: Scene) -> None:
    scene.learn(*vector_events(3))
    with scene.workspace.store.durable_writer.begin() as connection:
        append_events(connection, "m", vector_events(3, 3))
        connection.execute(text('UPDATE event SET "offset" = "offset" + 100 WHERE "offset" > 4'))
    scene.learner.setup = replace(scene.learner.setup, batch=10)
    for _ in range(3):
        scene.learner.step()
    assert scene.learner.training.learned_until == 4, "it learns until the gap, and waits there"
    with scene.workspace.store.durable_writer.begin() as connection:
        connection.execute(text('UPDATE event SET "offset" = "offset" - 100 WHERE "offset" > 100'))
    scene.learner.step()
    assert scene.learner.training.learned_until == 6


def test_all_events_that_break_the_model_are_refused_and_the_others_learned(
    create_scene: CreateScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "river", FAILING)
    scene = create_scene("river", {})
    labels = ["explode" if n % 4 == 0 else "fine" for n in range(40)]
    scene.learn(*(Event(f"x{n}", "label", b"{}", label) for n, label in enumerate(labels)))
    assert len(scene.learner.training.refused) == 10
    assert unpack_json(scene.learner.training.model.state()["all"].tensors["learned"]) == ["fine"] * 30


def test_old_versions_are_pruned_while_learning(scene: Scene) -> None:
    for n in range(70):
        scene.learn(*vector_events(1, n))
    assert len(scene.snapshots.folder.versions()) <= 2 * 20 + 32


def test_the_state_does_not_depend_on_batches() -> None:
    entries = [event.at(n + 1) for n, event in enumerate(vector_events(300))]
    fingerprints = []
    for size in (1, 7, 300):
        training = TrainingState("classifier", {"input": "vector", "size": 3}, "cpu", lambda until: [])
        for start in range(0, 300, size):
            training.apply(entries[start : start + size])
        fingerprints.append(training.model.fingerprint())
    assert len(set(fingerprints)) == 1


def test_an_unfinished_action_of_the_guard_is_completed_at_the_next_start(scene: Scene) -> None:
    scene.learn(*vector_events(10))
    good = scene.snapshots.folder.live()
    assert good is not None
    scene.learn(*vector_events(10, start=10))
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
    scene.start_learner()
    assert scene.snapshots.control.frozen() is None  # a model without a guard is not frozen
    for _ in range(2):  # the second start changes nothing
        scene.start_learner(guard="all")
        frozen, live = scene.snapshots.control.frozen(), scene.snapshots.folder.live()
        assert frozen is not None and frozen.reason == "the guard: worse"
        assert live is not None and live.version == good.version
