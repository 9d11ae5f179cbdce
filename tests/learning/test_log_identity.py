"""A log that went back in time, or is another one: snapshots of the other log are set aside, and the log is learned."""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from online.errors import LogReplaced
from online.learning.process import run_learner
from online.models import Options
from online.schemas.events import Event
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import Manifest
from online.snapshots.roll_back import Freeze
from online.store.events import find_foreign
from tests.learning.conftest import CreateScene
from tests.learning.scene import Scene, text_features, vector_events
from tests.support import PostgresBackup, until


@dataclass(frozen=True)
class SqliteBackup:
    """Copies of the file. Connections are closed, as when a machine fails: the next ones read the other file."""

    scene: Scene
    folder: Path

    def keep(self) -> None:
        path, kept = self.folder / "state" / "online.db", self.folder / "kept.db"
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(kept)) as target:
            source.backup(target)

    def bring_back(self) -> None:
        dispose_engines(self.scene)
        for path in (self.folder / "state").glob("online.db*"):
            path.unlink()
        shutil.copy(self.folder / "kept.db", self.folder / "state" / "online.db")


def dispose_engines(scene: Scene) -> None:
    store = scene.workspace.store
    for engine in (store.reader, store.writer, store.durable_writer):
        engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def running(
    request: pytest.FixtureRequest, create_scene: CreateScene, tmp_path: Path
) -> Iterator[tuple[Scene, SqliteBackup | PostgresBackup]]:
    """A scene whose learner runs, and a backup of its database."""
    if request.param == "sqlite":
        scene = create_scene()
        yield scene, SqliteBackup(scene, tmp_path)
        return
    url = request.getfixturevalue("postgres_url")
    scene = create_scene(store=url)
    with PostgresBackup(url) as backup:
        yield scene, backup


@pytest.fixture(params=[False, True], ids=["shorter", "longer"])
def more_events(request: pytest.FixtureRequest) -> int:
    """The events appended to the older log before the learner reads it again."""
    return 40 if request.param else 0


def set_labels(scene: Scene) -> int:
    """Label the version that learned 20 events and the newest; return the newest."""
    manifests = scene.snapshots.folder.manifests()
    old = next(each.version for each in manifests if each.learned_until == 20)
    scene.snapshots.labels.set("stable", LabelTarget(old))
    scene.snapshots.labels.set("canary", LabelTarget(manifests[0].version, 5))
    return manifests[0].version


def check_that_the_log_is_learned(scene: Scene, head: int) -> None:
    """Nothing of the other log is left, and this one is learned as if there had been no other."""
    assert scene.stream.head() == head
    assert scene.live_until() == head
    assert scene.fingerprint() == scene.fingerprint_without()
    assert scene.snapshots.folder.manifests()[0].state_sha256 == scene.fingerprint()
    digests = {entry.offset: entry.digest for entry in scene.stream.read(0, 1_000)}
    for manifest in scene.snapshots.folder.manifests():
        assert manifest.log_digest == digests.get(manifest.learned_until, "")


@pytest.mark.few(2)
def test_a_log_that_is_replaced_under_a_running_learner_is_noticed_and_learned(
    running: tuple[Scene, SqliteBackup | PostgresBackup], more_events: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene, backup = running
    scene.learn(*vector_events(20))
    backup.keep()
    scene.learn(*vector_events(20, 20))
    newest = set_labels(scene)
    backup.bring_back()
    for event in vector_events(more_events, 100):
        scene.stream.append(event)
    with pytest.raises(LogReplaced):
        scene.learner.step()
    scene.learner = scene.start_learner()
    scene.learn()
    check_that_the_log_is_learned(scene, 20 + more_events)
    notice = scene.snapshots.aside.find()
    assert notice is not None and notice.learned_again and newest in notice.versions
    assert (notice.learned_until, notice.head, notice.labels) == (40, 20 + more_events, ("canary",))
    if (agreement := scene.learner.publisher.agreement) is None:
        assert list(scene.snapshots.labels.read()) == ["stable"]
    else:  # the store says which labels there are, and it went back to before they were set
        agreement.look(is_due=True)
        assert not scene.snapshots.labels.read()
    assert "snapshots set aside" in [each.message for each in caplog.records if each.levelno == logging.ERROR]
    scene.learn(*vector_events(5, 200))
    check_that_the_log_is_learned(scene, 25 + more_events)
    assert scene.snapshots.folder.manifests()[0].version > newest


def test_an_older_backup_under_newer_snapshots_is_noticed_at_start(tmp_path: Path, more_events: int) -> None:
    scene = Scene(tmp_path)
    backup = SqliteBackup(scene, tmp_path)
    scene.learn(*vector_events(20))
    backup.keep()
    scene.learn(*vector_events(20, 20))
    set_labels(scene)
    scene.workspace.store.close()
    backup.bring_back()
    restored = Scene(tmp_path)
    restored.learn(*vector_events(more_events, 100))
    check_that_the_log_is_learned(restored, 20 + more_events)
    assert list(restored.snapshots.labels.read()) == ["stable"]
    restored.workspace.store.close()


def test_a_new_database_under_old_snapshots_is_noticed_although_the_same_events_arrive(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(20))
    scene.workspace.store.close()
    for path in (tmp_path / "state").glob("online.db*"):
        path.unlink()
    fresh = Scene(tmp_path)
    assert fresh.live_until() == 0
    fresh.learn(*vector_events(30, 50))
    check_that_the_log_is_learned(fresh, 30)
    fresh.workspace.store.close()
    for path in (tmp_path / "state").glob("online.db*"):
        path.unlink()
    same = Scene(tmp_path)
    for event in vector_events(30, 50):  # all before the learner starts
        same.stream.append(event)
    same.learner = same.start_learner()
    same.learn()
    check_that_the_log_is_learned(same, 30)
    notice = same.snapshots.aside.find()
    assert notice is not None and notice.learned_until == 30
    same.workspace.store.close()


def test_a_truncated_wal_is_noticed(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "before")
    scene.learn(*vector_events(60))
    shutil.copytree(
        tmp_path / "before", tmp_path / "after", symlinks=True, ignore=shutil.ignore_patterns("bells", "*-shm")
    )
    scene.workspace.store.close()
    wal = tmp_path / "after" / "state" / "online.db-wal"
    with open(wal, "r+b") as file:
        file.truncate(wal.stat().st_size * 3 // 4)
    cut = Scene(tmp_path / "after")
    head = cut.stream.head()
    assert 0 < head < 60
    cut.learn()
    check_that_the_log_is_learned(cut, head)
    cut.learn(*vector_events(60 - head, 300))
    check_that_the_log_is_learned(cut, 60)
    cut.workspace.store.close()


@pytest.mark.parametrize(
    ("kind", "options"), [("river", {}), ("tower", {"input": "vector", "size": 3, "hidden": [8], "batch": 4})]
)
def test_a_model_that_cannot_subtract_learns_the_other_log_from_its_beginning(
    create_scene: CreateScene, tmp_path: Path, kind: str, options: Options
) -> None:
    scene = create_scene(kind, options)
    backup = SqliteBackup(scene, tmp_path)
    backup.keep()
    scene.learn(*table_or_vector_events(kind, 30))
    backup.bring_back()
    scene.learner = scene.start_learner()
    scene.learn(*table_or_vector_events(kind, 35, 100))
    check_that_the_log_is_learned(scene, 35)


def table_or_vector_events(kind: str, count: int, start: int = 0) -> list[Event]:
    events = vector_events(count, start)
    return events if kind != "river" else [replace(each, features=b'{"x":%d}' % n) for n, each in enumerate(events)]


def test_a_learner_that_runs_starts_again_by_itself(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec, stop = scene.workspace.settings.models[0], threading.Event()
    backup = SqliteBackup(scene, tmp_path)
    scene.learn(*vector_events(10))
    backup.keep()
    thread = threading.Thread(target=run_learner, args=(scene.workspace, spec, "cpu", stop))
    thread.start()
    try:
        for event in vector_events(20, 10):
            scene.stream.append(event)
        until(lambda: scene.live_until() == 30, what="a version of all events")
        backup.bring_back()
        until(lambda: scene.snapshots.aside.find() is not None, what="the notice")
        for event in vector_events(7, 200):
            scene.stream.append(event)
        until(lambda: scene.live_until() == 17, what="a version of the older log")
    finally:
        stop.set()
        thread.join()
    assert "started again" in [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert scene.snapshots.folder.manifests()[0].state_sha256 == scene.fingerprint_without()


def test_a_frozen_model_notices_it_too_and_answers_as_one_that_learned_nothing_of_the_other_log(
    scene: Scene, tmp_path: Path
) -> None:
    backup = SqliteBackup(scene, tmp_path)
    backup.keep()
    scene.learn(*vector_events(10))
    scene.snapshots.control.freeze(Freeze("2026-01-01T00:00:00+00:00", "a test"))
    backup.bring_back()
    scene.start_learner()
    live = scene.snapshots.folder.live()
    assert live is None or scene.live_until() == 0
    notice = scene.snapshots.aside.find()
    assert notice is not None and notice.learned_until == 10


def test_a_version_held_back_until_an_offset_of_the_other_log_is_held_no_longer(scene: Scene, tmp_path: Path) -> None:
    backup = SqliteBackup(scene, tmp_path)
    scene.learn(*vector_events(10))
    old = scene.snapshots.folder.manifests()[0].version
    scene.learn(*vector_events(5, 10))
    backup.keep()
    scene.learn(*vector_events(50, 15))
    scene.snapshots.control.roll_back(old, scene.learner.recipe)
    backup.bring_back()
    scene.learner = scene.start_learner()
    assert scene.live_until() == 10
    scene.learn(*vector_events(1, 100))
    assert scene.live_until() == 16


def manifest(version: int, learned_until: int, log_digest: str) -> Manifest:
    return Manifest("m", version, None, learned_until, "", "", "", "", "r", True, log_digest=log_digest)


def test_a_snapshot_is_of_this_log_if_its_digest_is_there() -> None:
    manifests = [manifest(n, 10 * n, digest) for n, digest in enumerate(["", "a", "b"])]

    def foreign(head: int, digests: dict[int, str]) -> list[int]:
        return [each.version for each in find_foreign(manifests, head, digests)]

    assert foreign(50, {10: "a", 20: "b"}) == []
    assert foreign(50, {10: "a", 20: "x"}) == [2]
    assert foreign(15, {10: "x"}) == [2, 1]
    assert foreign(0, {}) == [2, 1]


def test_few_versions_are_kept_aside_and_their_numbers_are_not_used_again(scene: Scene, tmp_path: Path) -> None:
    backup = SqliteBackup(scene, tmp_path)
    backup.keep()
    for n in range(25):
        scene.learn(*vector_events(1, n))
    newest = scene.snapshots.folder.manifests()[0].version
    backup.bring_back()
    scene.learner = scene.start_learner()
    aside = scene.snapshots.folder.path / "set-aside"
    kept = sorted(int(path.name) for path in aside.iterdir() if path.name.isdigit())
    assert len(kept) == 20 and kept[-1] == newest
    scene.snapshots.aside.forget()
    assert scene.snapshots.aside.find() is None and not list(aside.glob("*/*"))
    scene.learn(*vector_events(1, 200))
    assert scene.snapshots.folder.versions() == [1, newest + 1]


def test_a_text_model_learns_the_other_log_before_it_answers_again(create_scene: CreateScene, tmp_path: Path) -> None:
    scene = create_scene(options={})
    backup = SqliteBackup(scene, tmp_path)
    texts = [replace(event, features=text_features(n)) for n, event in enumerate(vector_events(30))]
    backup.keep()
    scene.learn(*texts[:20])
    backup.bring_back()
    scene.learner = scene.start_learner()
    scene.learn(*texts[20:])
    check_that_the_log_is_learned(scene, 10)
