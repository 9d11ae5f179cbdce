"""Snapshots are numbered, immutable and verified; the LIVE link is replaced by a rename."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from online.errors import BadInput, Conflict, CorruptSnapshot, NotFound, Unavailable
from online.io.wakeup import Wakeup
from online.models import StatePart
from online.snapshots import Snapshots
from online.snapshots.folder import LiveVersion
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import Manifest
from online.snapshots.roll_back import LastRollBack
from online.snapshots.set_aside import SetAsideRecord


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", "m", Wakeup(tmp_path / "bell"), retain=3)


def live_version(snapshots: Snapshots) -> int | None:
    live = snapshots.folder.live()
    return None if live is None else live.version


def manifest(version: int, learned_until: int, durable: bool = False, recipe: str = "r") -> Manifest:
    return Manifest(
        "m", version, version - 1, learned_until, "2026-01-01T00:00:00+00:00", "s", "", "e", recipe, durable
    )


def state(value: float, revision: int | None = None) -> dict[str, StatePart]:
    return {
        "weights": StatePart({"w": np.full((2, 3), value, np.float32)}, serving=True),
        "old": StatePart({"o": np.arange(4)}, serving=True, revision=revision),
        "statistics": StatePart({"s": np.array([int(value)])}, serving=False),
    }


def publish(snapshots: Snapshots, version: int, durable: bool = False, value: float = 1.0) -> Manifest:
    return snapshots.publisher.publish(state(value, revision=1), manifest(version, version * 10, durable))


def test_a_published_snapshot_is_live_and_loads_unchanged(snapshots: Snapshots) -> None:
    written = publish(snapshots, 1, value=0.5)
    assert live_version(snapshots) == 1
    loaded = snapshots.folder.load(1)
    assert loaded.manifest == written
    assert set(loaded.parts) == {"weights", "old"}
    np.testing.assert_array_equal(loaded.parts["weights"].tensors["w"], np.full((2, 3), 0.5, np.float32))


def test_a_learner_loads_all_parts(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    assert set(snapshots.folder.load(1, serving_only=False).parts) == {"weights", "old", "statistics"}


def test_non_contiguous_tensors_are_written_correctly(snapshots: Snapshots) -> None:
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    snapshots.publisher.publish({"weights": StatePart({"w": transposed}, serving=True)}, manifest(1, 1))
    np.testing.assert_array_equal(snapshots.folder.load(1).parts["weights"].tensors["w"], transposed)


def test_an_unchanged_part_is_a_hard_link_to_the_earlier_file(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version, value=version)
    inodes = {(snapshots.folder.path / str(version) / "old.safetensors").stat().st_ino for version in (1, 2, 3)}
    assert len(inodes) == 1
    first = snapshots.folder.load(2)
    assert snapshots.folder.load(3, known=first).parts["old"] is first.parts["old"]


def test_a_snapshot_with_a_changed_byte_is_refused(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    path = snapshots.folder.path / "1" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshot, match="weights does not match its sha256"):
        snapshots.folder.load(1)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"version": "x"}', '{"files": null}'])
def test_a_damaged_manifest_is_refused(snapshots: Snapshots, damage: str) -> None:
    publish(snapshots, 1)
    (snapshots.folder.path / "1" / "manifest.json").write_text(damage)
    with pytest.raises(CorruptSnapshot):
        snapshots.folder.load(1)


def test_a_missing_file_is_damage_and_a_missing_version_is_not_found(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    (snapshots.folder.path / "1" / "weights.safetensors").unlink()
    with pytest.raises(CorruptSnapshot):
        snapshots.folder.load(1)
    with pytest.raises(NotFound, match="no version 7"):
        snapshots.folder.load(7)


def test_learning_resumes_from_the_newest_undamaged_durable_version(snapshots: Snapshots) -> None:
    publish(snapshots, 1, durable=True)
    publish(snapshots, 2, durable=True)
    publish(snapshots, 3)
    (snapshots.folder.path / "2" / "statistics.safetensors").write_bytes(b"")
    assert [loaded.manifest.version for loaded in snapshots.folder.durable("r")] == [1]
    assert list(snapshots.folder.durable("another recipe")) == []


def test_a_rollback_moves_live_and_records_how_far_learning_was(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
    assert snapshots.control.roll_back(1, "r").version == 1
    live = snapshots.folder.live()
    assert live is not None and (live.version, live.held_until) == (1, 30)
    assert snapshots.folder.next_version() == 4


def test_the_last_rollback_is_known_after_newer_versions_went_live_again(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
    assert snapshots.control.last_roll_back() is None
    snapshots.control.roll_back(1, "r")
    publish(snapshots, 4)
    assert (live_version(snapshots), snapshots.control.last_roll_back()) == (4, LastRollBack(1, 10, 30))
    snapshots.control.roll_back(2, "r")
    assert snapshots.control.last_roll_back() == LastRollBack(2, 20, 40)
    (snapshots.folder.path / "ROLLED_BACK").write_text("{")
    assert snapshots.control.last_roll_back() is None


def test_a_rollback_is_over_once_the_newest_version_is_gone_forward_to(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
    snapshots.control.roll_back(1, "r")
    snapshots.control.roll_back(3, "r")
    assert snapshots.control.last_roll_back() is None


def test_a_rollback_to_a_damaged_version_changes_nothing(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    publish(snapshots, 2)
    (snapshots.folder.path / "1" / "weights.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CorruptSnapshot):
        snapshots.control.roll_back(1, "r")
    assert live_version(snapshots) == 2


def test_pruning_keeps_the_newest_the_durable_and_the_live_versions(snapshots: Snapshots) -> None:
    snapshots.retention.retain = 2
    for version in range(1, 11):
        publish(snapshots, version, durable=version in (2, 4, 6))
    snapshots.control.roll_back(1, "r")
    snapshots.retention.prune()
    assert snapshots.folder.versions() == [1, 4, 6, 9, 10]


def test_a_version_number_is_never_used_twice(snapshots: Snapshots) -> None:
    snapshots.retention.retain = 2
    for version in range(1, 8):
        publish(snapshots, version)
    snapshots.retention.prune()
    assert snapshots.folder.next_version() == 8


def test_a_version_that_waits_for_the_disk_is_seen_when_it_is_there_or_not_at_all(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(snapshots, 1)
    assert not snapshots.folder.is_on_disk(1)

    def refuse(path: Path) -> None:
        assert not (snapshots.folder.path / "2").exists()
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("online.snapshots.publish.sync_file", refuse)
        with pytest.raises(Unavailable, match="version 2 of m could not be written: Input/output error"):
            snapshots.publisher.publish(state(2.0), manifest(2, 20, True), waits=True)
    assert (live_version(snapshots), snapshots.folder.versions()) == (1, [1])
    snapshots.publisher.publish(state(2.0), manifest(2, 20, True), waits=True)
    assert live_version(snapshots) == 2 and snapshots.folder.is_on_disk(2)


def test_a_failed_publication_leaves_nothing(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    (snapshots.folder.path / "2").mkdir()
    (snapshots.folder.path / "2" / "in the way").touch()
    with pytest.raises(Unavailable, match="version 2 of m could not be written"):
        publish(snapshots, 2)
    assert live_version(snapshots) == 1
    assert not list(snapshots.folder.path.glob(".2*"))


def test_a_concurrent_reader_sees_only_complete_versions(snapshots: Snapshots, tmp_path: Path) -> None:
    done, seen = threading.Event(), set()

    def read() -> None:
        reader = Snapshots(snapshots.folder.path, "m", Wakeup(tmp_path / "bell"))
        while not done.is_set():
            live = reader.folder.live()
            if live is None:
                continue
            try:
                loaded = reader.folder.load(live.version)
            except NotFound:
                continue  # pruned between the two reads
            assert float(loaded.parts["weights"].tensors["w"][0, 0]) == loaded.manifest.version
            seen.add(live.version)

    thread = threading.Thread(target=read)
    thread.start()
    for version in range(1, 200):
        publish(snapshots, version, value=version)
        if version % 10 == 0:
            snapshots.retention.prune()
    done.set()
    thread.join()
    assert len(seen) > 3


def set_aside(snapshots: Snapshots, *versions: int, live: int | None = None) -> SetAsideRecord:
    return snapshots.aside.move(SetAsideRecord("2026-01-01", "another log", versions, 10 * versions[-1], 15), live)


def test_versions_that_are_set_aside_are_kept_but_neither_live_nor_labelled(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
        snapshots.labels.set(f"v{version}", LabelTarget(version))
    notice = set_aside(snapshots, 2, 3, live=1)
    assert (snapshots.folder.versions(), live_version(snapshots), list(snapshots.labels.read())) == ([1], 1, ["v1"])
    assert notice.labels == ("v2", "v3") and snapshots.aside.find() == notice
    assert (snapshots.folder.path / "set-aside" / "3" / "weights.safetensors").exists()
    assert snapshots.folder.next_version() == 4
    publish(snapshots, 4)
    assert live_version(snapshots) == 4


def rolled_back(snapshots: Snapshots) -> None:
    """Versions 1 to 3, of which 2 is live and 3 was before."""
    for version in (1, 2, 3):
        publish(snapshots, version)
    snapshots.control.roll_back(2, "r")
    assert snapshots.folder.live() == LiveVersion(2, 30, previous=3)


def test_the_live_version_that_is_set_aside_is_followed_by_one_with_the_version_before_it(snapshots: Snapshots) -> None:
    rolled_back(snapshots)
    set_aside(snapshots, 2, live=1)
    assert snapshots.folder.live() == LiveVersion(1, previous=3)


def test_no_version_is_the_one_before_itself(snapshots: Snapshots) -> None:
    rolled_back(snapshots)
    set_aside(snapshots, 2, live=3)
    assert snapshots.folder.live() == LiveVersion(3, previous=0)


def test_what_was_live_before_is_forgotten_once_it_is_set_aside(snapshots: Snapshots) -> None:
    rolled_back(snapshots)
    set_aside(snapshots, 3)
    assert snapshots.folder.live() == LiveVersion(2, 15, previous=0)  # and the log ends at 15


def test_a_rollback_without_a_live_version_has_none_before_it(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    (snapshots.folder.path / "LIVE").unlink()
    snapshots.control.roll_back(1, "r")
    assert snapshots.folder.live() == LiveVersion(1, 10, previous=0)


def test_the_number_of_the_live_version_is_0_without_one(snapshots: Snapshots) -> None:
    assert snapshots.folder.live_number() == 0
    publish(snapshots, 1)
    assert snapshots.folder.live_number() == 1


def test_a_version_is_on_the_disk_with_the_folder_that_names_it(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(snapshots, 1)
    synced = list[Path]()
    monkeypatch.setattr("online.snapshots.publish.sync_folder", synced.append)
    snapshots.publisher.make_durable(1)
    assert snapshots.folder.path in synced


def test_setting_aside_is_completed_after_a_kill(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
    (snapshots.folder.path / "set-aside").mkdir()
    (snapshots.folder.path / "3").rename(
        snapshots.folder.path / "set-aside" / "3"
    )  # one is moved, and LIVE names it still
    set_aside(snapshots, 1, 2)
    notice = snapshots.aside.find()
    assert notice is not None and notice.versions == (1, 2, 3)
    assert sorted(path.name for path in (snapshots.folder.path / "set-aside").iterdir() if path.is_dir()) == [
        "1",
        "2",
        "3",
    ]
    assert (snapshots.folder.versions(), snapshots.folder.live(), snapshots.folder.next_version()) == ([], None, 4)


def test_versions_that_were_set_aside_are_deleted_and_the_notice_says_so(snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        publish(snapshots, version)
    set_aside(snapshots, 2, 3, live=1)
    assert snapshots.aside.versions() == [2, 3]
    snapshots.aside.delete()
    notice = snapshots.aside.find()
    assert notice is not None and notice.deleted and notice.versions == (2, 3)
    assert snapshots.aside.versions() == [] and snapshots.folder.next_version() == 4
    assert not list(snapshots.folder.path.glob("set-aside/*/*"))
    snapshots.aside.mark_learned_again(15)
    notice = snapshots.aside.find()
    assert notice is not None and notice.deleted and notice.learned_again


def test_a_kill_while_versions_are_deleted_never_frees_their_numbers(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (1, 2):
        publish(snapshots, version)
    set_aside(snapshots, 1, 2)
    removed = 0

    def unlink(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        removed += 1
        if removed == 2:
            raise KeyboardInterrupt
        os.unlink(path)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "unlink", unlink)
        snapshots.aside.forget()
    assert snapshots.folder.next_version() == 3 and snapshots.aside.versions() == [2]
    snapshots.aside.forget()
    assert (snapshots.folder.next_version(), snapshots.aside.versions(), snapshots.aside.find()) == (3, [], None)


@pytest.mark.parametrize("damage", ["", "5", "[]", "{}", '{"versions": 1, "labels": 2}'])
def test_a_damaged_notice_is_no_notice(snapshots: Snapshots, damage: str) -> None:
    publish(snapshots, 1)
    set_aside(snapshots, 1)
    (snapshots.folder.path / "set-aside" / "notice.json").write_text(damage)
    assert snapshots.aside.find() is None


def test_live_is_a_link_to_the_version(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    assert str((snapshots.folder.path / "LIVE").readlink()) == "1"


@pytest.mark.parametrize("damage", ["a file", "-1", "x", "../1", "1,held_until=", "1,held_until=x", "9" * 30])
def test_a_damaged_live_link_is_reported_and_the_next_publication_replaces_it(
    snapshots: Snapshots, damage: str
) -> None:
    publish(snapshots, 1)
    (snapshots.folder.path / "LIVE").unlink()
    (snapshots.folder.path / "LIVE").touch() if damage == "a file" else (snapshots.folder.path / "LIVE").symlink_to(
        damage
    )
    with pytest.raises(CorruptSnapshot, match="LIVE"):
        snapshots.folder.live()
    assert (snapshots.folder.live_until("r"), snapshots.folder.live_number()) == (-1, 0)
    publish(snapshots, snapshots.folder.next_version())
    assert live_version(snapshots) == 2


def test_a_concurrent_publication_does_not_undo_a_rollback(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    publish(snapshots, 2)
    concurrent = manifest(3, 20)  # it has learned no more than the version that was live when it was created
    snapshots.control.roll_back(1, "r")
    snapshots.publisher.publish(state(3.0), concurrent)
    assert live_version(snapshots) == 1
    publish(snapshots, 4)
    assert live_version(snapshots) == 4


def test_a_rollback_to_a_version_with_other_options_is_refused(snapshots: Snapshots) -> None:
    publish(snapshots, 1)
    with pytest.raises(Conflict, match="other options"):
        snapshots.control.roll_back(1, "another recipe")
    snapshots.publisher.publish(state(2.0), manifest(2, 3, recipe="another recipe"))
    assert live_version(snapshots) == 2, "the live version has another recipe, so a publication replaces it"


@pytest.mark.parametrize(
    ("name", "percent"), [("latest", 0), ("live", 0), ("previous", 0), ("stable", 5), ("no.label", 0), ("", 0)]
)
def test_an_invalid_label_is_refused_for_every_caller(snapshots: Snapshots, name: str, percent: float) -> None:
    publish(snapshots, 1)
    with pytest.raises(BadInput):
        snapshots.labels.set(name, LabelTarget(1, percent))
    assert snapshots.labels.read() == {}
    snapshots.labels.set("canary", LabelTarget(1, 5))
    assert snapshots.labels.read() == {"canary": LabelTarget(1, 5)}
