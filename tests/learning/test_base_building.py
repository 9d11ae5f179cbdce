"""The base: contents of events expire, and the model is, and goes on as, the one that learned them."""

import logging
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from online.errors import PreconditionFailed, SetupError
from online.models import Options
from online.plugins.encoder_tuning.adoption import AdaptationRun
from online.schemas.events import Event
from online.snapshots.roll_back import Freeze
from online.store import now
from online.store.classes import load_classes
from online.store.deletion.event_expiry import close_events
from online.store.events import append_events
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS
from online.store.quarantine import QuarantineRow, begin
from online.store.repertoire.replies import add_reply, find_reply
from tests.learning.expiry_scene import NOW, OLD, YOUNG, ExpiryScene
from tests.learning.scene import VECTOR, text_features

CreateScene = Callable[..., ExpiryScene]
FITTED: dict[str, Any] = {"input": "vector", "size": 3}


@pytest.fixture
def create(tmp_path: Path) -> Iterator[CreateScene]:
    scenes: list[ExpiryScene] = []

    def create(name: str = "scene", *arguments: Any, **options: Any) -> ExpiryScene:
        scenes.append(ExpiryScene(tmp_path / name, *arguments, **options))
        return scenes[-1]

    yield create
    for scene in scenes:
        scene.workspace.store.close()


def vector(n: int) -> bytes:
    return np.random.default_rng(n).normal(n % 2, 0.5, 3).tobytes()


def table(n: int) -> bytes:
    return b'{"x": %.3f}' % float(np.random.default_rng(n).normal(n % 2, 0.5))


def side(n: int) -> str:
    return "ab"[n % 2]


def number(n: int) -> str:
    return str(n % 2 + n / 100)


def reply(n: int) -> str:
    return f"reply {n % 2}"


CASES: list[Any] = [
    pytest.param("classifier", VECTOR, vector, side, id="classifier"),
    pytest.param("classifier", FITTED, vector, side, id="a classifier whose scale is fitted", marks=pytest.mark.long),
    pytest.param("regressor", {**FITTED, "target_scale": 8.0}, vector, number, id="regressor", marks=pytest.mark.long),
    pytest.param("knn", FITTED | {"window": 25}, vector, side, id="knn that forgets", marks=pytest.mark.long),
    pytest.param("river", {}, table, side, id="river", marks=pytest.mark.long),
    pytest.param("tower", FITTED | {"hidden": [8], "batch": 4}, vector, side, id="tower", marks=pytest.mark.long),
    pytest.param("ranker", {"max_exemplars": 20}, text_features, reply, id="ranker that forgets"),
]
MakeEvent = Callable[[int], Event]


def teach(scene: ExpiryScene, make: MakeEvent, expires: bool = True) -> None:
    """40 feedbacks of long ago, some of them retracted, then and later; 20 young ones; another retraction."""
    if scene.kind == "ranker":
        replies = [Event(reply(n), "reply", text_features(1_000 + n), reply(n), f"Reply {n}.") for n in range(2)]
        scene.workspace.store.submit(lambda c: append_events(c, "m", replies, source="repertoire")).result()
    for n in range(40):
        scene.give(make(n), OLD)
        if n == 20:
            scene.retract("e3")
    for n in range(40, 60):
        scene.give(make(n), YOUNG)
        if n == 50:
            scene.retract("e5")
            scene.retract("e45")
    scene.expire() if expires else scene.catch_up()


def go_on(scene: ExpiryScene, make: MakeEvent) -> str:
    scene.retract("e47")
    for n in range(60, 70):
        scene.give(make(n), YOUNG)
    scene.catch_up()
    return scene.fingerprint()


@pytest.mark.parametrize(("kind", "options", "features", "label"), CASES)
def test_the_state_stays_and_goes_on_as_if_nothing_had_expired(
    create: CreateScene, kind: str, options: Options, features: Any, label: Any
) -> None:
    def make(n: int) -> Event:
        return Event(f"e{n}", "label", features(n), label(n), choice=label(0))

    control, scene = create("control", kind, options), create("scene", kind, options)
    teach(control, make, expires=False)
    teach(scene, make)
    assert scene.fingerprint() == control.fingerprint()
    assert scene.kinds().count("void") == 42, "40 feedbacks, and the retractions of two of them"
    assert not any(entry.features for entry in scene.entries() if entry.kind == "void")

    scene.learner = scene.start_learner()  # as after a kill
    assert scene.fingerprint() == control.fingerprint()
    scene.damage_versions()
    scene.learner = scene.start_learner()  # from the base, and what is left of the log
    scene.catch_up()
    assert scene.learner.training.missing_until == 0
    assert scene.fingerprint() == control.fingerprint()
    assert go_on(scene, make) == go_on(control, make)


def make_vector(n: int) -> Event:
    return Event(f"e{n}", "label", vector(n), side(n), choice="a")


def test_a_base_is_continued_by_the_next_one(create: CreateScene) -> None:
    control, scene = create("control", "classifier", FITTED), create("scene", "classifier", FITTED)
    for each in (control, scene):
        for n in range(30):
            each.give(make_vector(n), OLD if n < 10 else YOUNG)
        each.catch_up()
    scene.remove()
    first = scene.base()
    assert first is not None and first.learned_until == 10
    scene.at = NOW + timedelta(hours=12)
    scene.expire()
    assert scene.base() == first, "bases are made rarely"
    scene.at = NOW + timedelta(days=40)
    scene.expire()
    second = scene.base()
    assert (
        second is not None
        and second.learned_until == 30
        and scene.snapshots.base().folder.versions() == [second.version]
    )
    assert second.metrics["events"] == 30
    scene.damage_versions()
    scene.learner = scene.start_learner()
    assert scene.fingerprint() == control.fingerprint() and scene.learner.counts == control.learner.counts


def test_rows_are_deleted_and_classes_stay_known(create: CreateScene) -> None:
    scene = create()
    for n in range(10):
        scene.give(replace(make_vector(n), label="only then") if n == 2 else make_vector(n), OLD)
    scene.give(make_vector(10), YOUNG)
    scene.expire()
    assert (scene.count(FEEDBACK), scene.count(PREDICTIONS)) == (1, 1)
    classes = scene.workspace.store.read(lambda connection: load_classes(connection, "m", scene.learner.recipe))
    assert [(row.id, row.active) for row in classes] == [("a", True), ("b", True), ("only then", True)]
    assert scene.progress().learned_count == scene.progress().event_count == 10


def test_a_reply_that_expired_feedback_brought_stays(create: CreateScene) -> None:
    scene = create("scene", "ranker", {})
    brought = Event("anna-1#reply", "reply", text_features(1), "r1", "A reply.")
    store = scene.workspace.store
    [offset] = store.submit(lambda c: append_events(c, "m", [brought], feedback_id="anna-1")).result()
    store.submit(lambda connection: add_reply(connection, "m", "r1", "A reply.", offset)).result()
    scene.give(Event("anna-1", "correction", text_features(2), "r1"), OLD)
    scene.give(Event("young", "correction", text_features(3), "r1"), YOUNG)
    scene.expire()
    assert scene.kinds() == ["reply", "void", "correction"]
    assert "anna" not in scene.entries()[0].body()
    scene.retract("young")
    scene.catch_up()
    assert store.read(lambda connection: find_reply(connection, "m", "r1")) is not None
    scene.options = {**scene.options, "shrinkage": 0.5}
    scene.learner = scene.start_learner()
    scene.catch_up()
    model: Any = scene.learner.training.model
    assert [each.id for each in model.replies] == ["r1"], "other options learn the reply again"


def test_an_encoder_is_not_changed_where_texts_expire(create: CreateScene) -> None:
    scene = create("scene", "ranker", {})
    scene.workspace.store.submit(lambda connection: close_events(connection, "m", 1)).result()
    with pytest.raises(SetupError, match=r"the encoder of m cannot be changed: .* event_retention_days"):
        AdaptationRun(scene.workspace, "m").go_back(lambda step, done, total: None)


def test_what_has_expired_is_not_retracted(create: CreateScene) -> None:
    scene = create()
    for n in range(4):
        scene.give(make_vector(n), OLD)
    scene.learn()
    scene.catch_up()
    assert scene.count(FEEDBACK) == 4, "nothing is removed yet"
    with pytest.raises(PreconditionFailed, match=r"older than event_retention_days.*cannot be un-learned"):
        scene.retract("e1")


def test_what_is_not_learned_does_not_expire(create: CreateScene) -> None:
    scene = create()
    for n in range(4):
        scene.give(make_vector(n), OLD)
    scene.remove()
    assert scene.kinds() == ["label"] * 4
    scene.expire()
    scene.snapshots.control.freeze(Freeze("2030-01-01", "a test"))
    for n in range(4, 8):
        scene.give(make_vector(n), OLD)
    scene.at = NOW + timedelta(days=2)
    rounds = iter([False] * 5)
    scene.learner = scene.start_learner(is_outdated=lambda: next(rounds, True))
    scene.learner.run(threading.Event())
    scene.remove()
    assert scene.kinds() == ["void"] * 4 + ["label"] * 4


def test_feedback_in_quarantine_does_not_expire(create: CreateScene) -> None:
    scene = create()
    for n in range(10):
        scene.give(make_vector(n), OLD)
    row = QuarantineRow(
        model="m",
        offset=9,
        since=7,
        until=None,
        reason="a test",
        rolled_back_to=None,
        created_at=now(),
        ended_at=None,
        outcome=None,
    )
    scene.workspace.store.submit(lambda connection: begin(connection, row)).result()
    scene.expire()
    assert scene.kinds() == ["void"] * 6 + ["label"] * 4


def test_other_options_learn_what_is_left_and_say_so_once(
    create: CreateScene, caplog: pytest.LogCaptureFixture
) -> None:
    scene = create()
    for n in range(20):
        scene.give(make_vector(n), OLD if n < 15 else YOUNG)
    scene.expire()
    caplog.set_level(logging.ERROR)
    scene.options = {**scene.options, "scale": 2.0}
    scene.learner = scene.start_learner()
    assert [record.getMessage() for record in caplog.records] == ["learning what is left of the log"]
    scene.catch_up()
    left = create("left", "classifier", {**VECTOR, "scale": 2.0})
    for n in range(15, 20):
        left.give(make_vector(n), YOUNG)
    left.catch_up()
    assert scene.learner.training.missing_until == 15
    assert scene.snapshots.folder.manifests()[0].metrics["missing_until"] == 15
    assert scene.fingerprint() == left.fingerprint()
    caplog.clear()
    scene.learner = scene.start_learner()
    assert scene.learner.training.missing_until == 15 and not caplog.records
    scene.at = NOW + timedelta(days=40)
    scene.expire()
    base = scene.base()
    assert base is not None and base.learned_until == 20 and base.metrics["missing_until"] == 15


def test_a_damaged_base_is_said_and_not_replaced(create: CreateScene, caplog: pytest.LogCaptureFixture) -> None:
    scene = create()
    for n in range(20):
        scene.give(make_vector(n), OLD if n < 15 else YOUNG)
    scene.expire()
    base, before = scene.base(), scene.fingerprint()
    assert base is not None
    for path in (scene.snapshots.base().folder.path / str(base.version)).glob("*.safetensors"):
        path.write_bytes(b"damaged")
    scene.learner = scene.start_learner()
    assert scene.fingerprint() == before, "the durable snapshots are whole"
    scene.at = NOW + timedelta(days=40)
    caplog.set_level(logging.WARNING)
    for _ in range(5):
        scene.learner.step()
    assert "no base was made" in {record.getMessage() for record in caplog.records}
    scene.remove()
    assert scene.base() == base and scene.kinds()[15:] == ["label"] * 5
    scene.damage_versions()
    scene.learner = scene.start_learner()
    assert scene.learner.training.missing_until == 15
    assert "learning what is left of the log" in {record.getMessage() for record in caplog.records}


def test_a_snapshot_from_before_a_removed_retraction_is_not_resumed_from(create: CreateScene) -> None:
    control, scene = create("control"), create()
    for each in (control, scene):
        each.give(make_vector(0), YOUNG)
        each.give(make_vector(1), YOUNG)
        each.catch_up()
    old = scene.snapshots.folder.manifests()[0].version
    for each in (control, scene):
        each.retract("e0")
        each.give(make_vector(2), NOW + timedelta(days=20))
        each.catch_up()
    scene.at = NOW + timedelta(days=30)
    scene.expire()
    assert scene.kinds() == ["void", "void", "void", "label"]
    scene.damage_versions(since=old + 1)
    scene.learner = scene.start_learner()
    scene.catch_up()
    assert scene.fingerprint() == control.fingerprint()


def test_many_versions_of_other_options_do_not_push_out_the_base(create: CreateScene) -> None:
    scene = create()
    for n in range(20):
        scene.give(make_vector(n), OLD if n < 15 else YOUNG)
    scene.expire()
    expected, own = scene.fingerprint(), scene.options
    scene.options = {**scene.options, "scale": 2.0}
    scene.learner = scene.start_learner()
    for n in range(20, 60):
        scene.give(make_vector(n), YOUNG)
        scene.learn()
    scene.snapshots.retention.prune()
    scene.options = own
    scene.learner = scene.start_learner()
    assert scene.learner.training.missing_until == 0
    control = create("control")
    for n in range(60):
        control.give(make_vector(n), YOUNG)
    control.catch_up()
    scene.learn()
    assert scene.fingerprint() == control.fingerprint() != expected


def run_until_killed(folder: Path, kill_after: int) -> None:
    scene = ExpiryScene(folder, "classifier", FITTED)
    store: Any = scene.workspace.store
    submit, commits = store.submit, 0

    def submit_and_die(*arguments: Any, **more: Any) -> Any:
        nonlocal commits
        done = submit(*arguments, **more)
        done.result()
        commits += 1
        if commits == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    store.submit = submit_and_die
    scene.expire()


def test_killed_after_any_commit_it_goes_on_and_the_state_is_the_same(
    tmp_path: Path, create: CreateScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = create("control", "classifier", FITTED)
    teach(control, make_vector, expires=False)
    scene = create("scene", "classifier", FITTED)
    teach(scene, make_vector, expires=False)
    scene.workspace.store.close()
    rng, killed = random.Random(14), 0
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    while True:
        child = processes.Process(target=run_until_killed, args=(tmp_path / "scene", rng.randint(1, 2 + killed // 2)))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        killed += 1
    again = create("scene", "classifier", FITTED)
    assert killed >= 2 and again.kinds().count("void") == 42
    assert again.fingerprint() == control.fingerprint()
    again.damage_versions()
    again.learner = again.start_learner()
    assert go_on(again, make_vector) == go_on(control, make_vector)
