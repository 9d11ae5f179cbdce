"""`online backup` and `online restore`: the same state, by hash, as the service had at that offset; and nothing half."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from online.cli.app import app
from online.errors import BadInput, SetupError
from online.models import Example, create
from online.plugins.backup.archive import verify_archive
from online.plugins.backup.backing_up import write_backup
from online.plugins.backup.restoring import restore_backup
from online.plugins.backup.tables import list_tables
from online.schemas.control import ControlChange
from online.settings import ModelSettings, Settings
from online.store import Store
from online.store.events import head_of, load_digests
from online.store.publications import load_serving, record_change
from tests.conftest import config
from tests.learning.scene import VECTOR, Scene, retraction, vector_events
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def be_silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """A service that has learned 30 events, of which one was retracted."""
    url = None if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    opened = Scene(tmp_path / "own", store=url)
    opened.learn(*vector_events(20))
    opened.learn(retraction(opened.stream, 7), *vector_events(9, start=20))
    opened.learner.publisher.settle_disk_write()
    yield opened
    opened.workspace.store.close()


def restored_settings(folder: Path) -> Settings:
    spec = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": VECTOR})
    return Settings(state=folder / "state", models=(spec,))


def learn_until(scene: Scene, until: int) -> str:
    """The fingerprint of a model that has learned the log until an offset."""
    model = create(scene.kind, scene.options)
    retracted = {entry.target.offset for entry in scene.stream.read(0, until) if entry.target is not None}
    for entry in scene.stream.read(0, until):
        if entry.kind == "label" and entry.offset not in retracted:
            model.learn([Example(entry.offset, entry.kind, entry.features, entry.label)])
    return model.fingerprint()


def learn_restored(folder: Path) -> tuple[int, str]:
    """Learn what a restored service has in its log; return the head and the fingerprint."""
    again = Scene(folder)
    again.learn()
    found = again.stream.head(), again.fingerprint()
    again.workspace.store.close()
    return found


@pytest.mark.parametrize("until", [None, 25, 12, 3])
def test_a_restored_service_learns_to_the_hash_that_the_other_had_at_that_offset(
    scene: Scene, tmp_path: Path, until: int | None
) -> None:
    file = tmp_path / "b.tar.zst"
    write_backup(scene.workspace.settings, file, False, be_silent)
    expected = learn_until(scene, until or 30)
    scene.learn(*vector_events(5, start=40))  # after the backup: not in it
    restore_backup(restored_settings(tmp_path / "new"), file, {} if until is None else {"m": until}, be_silent)
    head, fingerprint = learn_restored(tmp_path / "new")
    print(f"offset {head}: {fingerprint} restored, {expected} then")
    assert (head, fingerprint) == (until or 30, expected)


def test_the_log_of_a_restored_store_is_the_same_one_by_its_digest(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.zst"
    manifest = write_backup(scene.workspace.settings, file, False, be_silent)
    assert manifest.models["m"].head == 30 and manifest.models["m"].versions[0][1] == 30
    restore_backup(restored_settings(tmp_path / "new"), file, {}, be_silent)
    before = scene.workspace.store.read(lambda connection: load_digests(connection, "m", [1, 30]))
    with closing(Store(f"sqlite:///{tmp_path / 'new' / 'state' / 'online.db'}")) as store:
        assert store.read(lambda connection: load_digests(connection, "m", [1, 30])) == before
        assert store.instance == scene.workspace.store.instance


def test_what_is_not_empty_is_refused_with_the_remedy(scene: Scene, tmp_path: Path, postgres_url: str) -> None:
    file = tmp_path / "b.tar.zst"
    write_backup(scene.workspace.settings, file, False, be_silent)
    with pytest.raises(
        SetupError, match="is not empty; nothing was changed: stop the service and move the folder away"
    ):
        restore_backup(scene.workspace.settings, file, {}, be_silent)
    filled = Scene(tmp_path / "filled", store=postgres_url) if not scene.workspace.store.is_shared else scene
    filled.learn(*vector_events(1, start=90))
    target = restored_settings(tmp_path / "new").model_copy(update={"store": postgres_url})
    with pytest.raises(SetupError, match="name an empty database with --store"):
        restore_backup(target, file, {}, be_silent)
    assert not target.state.exists() and list(target.state.parent.iterdir()) == []
    if filled is not scene:
        filled.workspace.store.close()


def test_a_damaged_and_a_cut_off_backup_are_refused_before_anything_is_changed(scene: Scene, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar.zst", restored_settings(tmp_path / "new")
    write_backup(scene.workspace.settings, file, False, be_silent)
    data = file.read_bytes()
    for damaged in (
        data[: len(data) // 2],
        data[:-30],
        bytes([*data[:200], data[200] ^ 1, *data[201:]]),
        b"",
        b"x" * 500,
    ):
        file.write_bytes(damaged)
        with pytest.raises(BadInput, match=r"no backup|is cut off|damaged|no manifest"):
            restore_backup(target, file, {}, be_silent)
    assert not target.state.parent.exists()


@pytest.mark.parametrize("step", ["reading", "writing"])
def test_an_interruption_leaves_nothing_half(scene: Scene, tmp_path: Path, step: str) -> None:
    file, target = tmp_path / "b.tar.zst", restored_settings(tmp_path / "new")

    def interrupt(what: str, done: int, total: int) -> None:
        if what == f"{step} event":
            raise KeyboardInterrupt

    if step == "reading":
        with pytest.raises(KeyboardInterrupt):
            write_backup(scene.workspace.settings, file, False, interrupt)
        assert [path.name for path in tmp_path.iterdir()] == ["own"]
        assert not list(scene.workspace.state.glob(".backup-*"))
        return
    write_backup(scene.workspace.settings, file, False, be_silent)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(target, file, {}, interrupt)
    assert list(target.state.parent.iterdir()) == []
    restore_backup(target, file, {}, be_silent)
    assert learn_restored(tmp_path / "new")[1] == scene.fingerprint()


def test_an_offset_that_the_backup_does_not_have_is_refused(scene: Scene, tmp_path: Path) -> None:
    file, target = tmp_path / "b.tar.zst", restored_settings(tmp_path / "new")
    write_backup(scene.workspace.settings, file, False, be_silent)
    with pytest.raises(BadInput, match="has the offsets 0 to 30"):
        restore_backup(target, file, {"m": 31}, be_silent)
    with pytest.raises(BadInput, match="has no model 'other'; it has m"):
        restore_backup(target, file, {"other": 1}, be_silent)


def test_a_freeze_after_the_offset_is_left_out_and_one_before_it_stays(tmp_path: Path, postgres_url: str) -> None:
    own = Scene(tmp_path / "own", store=postgres_url)
    own.learn(*vector_events(4))
    freeze = ControlChange("freeze", at="2026-01-01T00:00:00+00:00", reason="a review")
    own.workspace.store.submit(lambda connection: record_change(connection, "m", freeze, shared=True)).result()
    file = tmp_path / "b.tar.zst"
    write_backup(own.workspace.settings, file, False, be_silent)
    own.workspace.store.close()
    for until, is_frozen in ((4, False), (5, True)):
        target = restored_settings(tmp_path / f"new-{until}")
        restore_backup(target, file, {"m": until}, be_silent)
        with closing(Store(target.store_url)) as store:
            state = store.read(lambda connection: load_serving(connection, "m"))
            assert store.read(lambda connection: head_of(connection, "m")) == until
        assert state is not None and (state.frozen is not None) == is_frozen


def test_the_keys_go_with_it_only_where_they_are_asked_for(scene: Scene, tmp_path: Path) -> None:
    keys = (scene.workspace.state / "keys.json").read_bytes()
    for with_keys in (False, True):
        file, target = tmp_path / f"{with_keys}.tar.zst", restored_settings(tmp_path / str(with_keys))
        assert write_backup(scene.workspace.settings, file, with_keys, be_silent).has_keys == with_keys
        assert file.stat().st_mode & 0o077 == 0, "others could read it"
        restore_backup(target, file, {}, be_silent)
        found = target.state / "keys.json"
        assert (found.read_bytes() == keys) if with_keys else not found.exists()


def test_a_backup_has_every_table_but_those_of_running_processes(scene: Scene, tmp_path: Path) -> None:
    write_backup(scene.workspace.settings, tmp_path / "b.tar.zst", False, be_silent)
    manifest = verify_archive(tmp_path / "b.tar.zst", be_silent)
    assert manifest.tables.keys() == {table.name for table in list_tables()}
    assert not {"replica", "lease"} & manifest.tables.keys()


def test_a_chat_that_runs_is_backed_up_and_goes_back_to_an_offset_with_its_replies(tmp_path: Path) -> None:
    service = Service(tmp_path / "state", config(tmp_path, CHAT))
    service.wait_learned("chat", 1)
    with service.client("chat") as client:
        first = client.predict(["When do you open?"])
        rated = client.feedback([{"prediction_id": first["prediction_ids"][0], "reward": 1}])[0]["offset"]
        service.wait_learned("chat", rated)
        then = next(each for each in service.versions("chat") if each["learned_until"] == rated)["state_sha256"]
        later = client.predict(["When do you close?"])
        added = client.feedback([{"prediction_id": later["prediction_ids"][0], "correction": "We close at noon."}])
        service.wait_learned("chat", added[0]["offset"])
    flags = ["--config", str(tmp_path / "state.toml")]
    file = str(tmp_path / "chat.tar.zst")
    written = CliRunner().invoke(app, ["backup", file, "--state", str(tmp_path / "state"), *flags, "--json"])
    assert written.exit_code == 0, written.output
    service.stop()
    again = CliRunner().invoke(
        app, ["restore", file, "--state", str(tmp_path / "new"), *flags, "--until", str(rated), "--json"]
    )
    assert again.exit_code == 0 and json.loads(again.stdout)["until"] == {"chat": rated}, again.output
    restored = Service(tmp_path / "new", config(tmp_path, CHAT))
    restored.wait_learned("chat", rated)
    newest = restored.versions("chat")[0]
    texts = {each["text"] for each in restored.http.get("/v1/models/chat/replies").json()["replies"]}
    print(f"offset {rated}: {newest['state_sha256']} restored, {then} then")
    restored.stop()
    assert (newest["learned_until"], newest["state_sha256"]) == (rated, then)
    assert "We close at noon." not in texts and len(texts) >= 1
