"""Snapshots: numbered, immutable, verified; LIVE moves by rename."""

import threading
from pathlib import Path

import numpy as np
import pytest

from online.doorbell import Doorbell
from online.errors import BadInput, Conflict, CorruptSnapshot, NotFound, Unavailable
from online.models import Part
from online.snapshots import Labelled, Manifest, Snapshots


def snapshots(folder: Path, retain: int = 3) -> Snapshots:
    return Snapshots(folder / "snapshots", "m", Doorbell(folder / "bell"), retain)


def manifest(version: int, learned_until: int, durable: bool = False, recipe: str = "r") -> Manifest:
    return Manifest(
        "m", version, version - 1, learned_until, "2026-01-01T00:00:00+00:00", "s", "", "e", recipe, durable
    )


def state(value: float, revision: int | None = None) -> dict[str, Part]:
    return {
        "weights": Part({"w": np.full((2, 3), value, np.float32)}, serving=True),
        "old": Part({"o": np.arange(4)}, serving=True, revision=revision),
        "statistics": Part({"s": np.array([int(value)])}, serving=False),
    }


def publish(kept: Snapshots, version: int, durable: bool = False, value: float = 1.0) -> Manifest:
    return kept.publish(state(value, revision=1), manifest(version, version * 10, durable))


def test_what_is_published_is_live_and_loads_the_same(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    written = publish(kept, 1, value=0.5)
    live = kept.live()
    assert live is not None and live.version == 1
    loaded = kept.load(1)
    assert loaded.manifest == written
    assert set(loaded.parts) == {"weights", "old"}
    np.testing.assert_array_equal(loaded.parts["weights"].tensors["w"], np.full((2, 3), 0.5, np.float32))


def test_learning_gets_all_parts(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    assert set(kept.load(1, serving_only=False).parts) == {"weights", "old", "statistics"}


def test_non_contiguous_tensors_are_written_as_they_are(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    kept.publish({"weights": Part({"w": turned}, serving=True)}, manifest(1, 1))
    np.testing.assert_array_equal(kept.load(1).parts["weights"].tensors["w"], turned)


def test_an_unchanged_part_is_a_hard_link_to_the_file_before(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    for version in (1, 2, 3):
        publish(kept, version, value=version)
    inodes = {(kept.folder / str(version) / "old.safetensors").stat().st_ino for version in (1, 2, 3)}
    assert len(inodes) == 1
    first = kept.load(2)
    assert kept.load(3, known=first).parts["old"] is first.parts["old"]


def test_a_changed_byte_is_refused(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    path = kept.folder / "1" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshot, match="weights does not match its sha256"):
        kept.load(1)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"version": "x"}', '{"files": null}'])
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: str) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    (kept.folder / "1" / "manifest.json").write_text(damage)
    with pytest.raises(CorruptSnapshot):
        kept.load(1)


def test_a_missing_file_is_damage_and_a_missing_version_is_not_found(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    (kept.folder / "1" / "weights.safetensors").unlink()
    with pytest.raises(CorruptSnapshot):
        kept.load(1)
    with pytest.raises(NotFound, match="no version 7"):
        kept.load(7)


def test_learning_resumes_from_the_newest_durable_version_that_is_whole(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1, durable=True)
    publish(kept, 2, durable=True)
    publish(kept, 3)
    (kept.folder / "2" / "statistics.safetensors").write_bytes(b"")
    assert [loaded.manifest.version for loaded in kept.durable("r")] == [1]
    assert list(kept.durable("another recipe")) == []


def test_rolling_back_moves_live_and_holds_what_was_learned_since(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    for version in (1, 2, 3):
        publish(kept, version)
    assert kept.roll_back(1, "r").version == 1
    live = kept.live()
    assert live is not None and (live.version, live.held_until) == (1, 30)
    assert kept.next_version() == 4


def test_rolling_back_to_a_damaged_version_changes_nothing(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    publish(kept, 2)
    (kept.folder / "1" / "weights.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CorruptSnapshot):
        kept.roll_back(1, "r")
    live = kept.live()
    assert live is not None and live.version == 2


def test_pruning_keeps_the_newest_the_durable_and_the_live_one(tmp_path: Path) -> None:
    kept = snapshots(tmp_path, retain=2)
    for version in range(1, 11):
        publish(kept, version, durable=version in (2, 4, 6))
    kept.roll_back(1, "r")
    kept.prune()
    assert kept.versions() == [1, 4, 6, 9, 10]


def test_a_version_number_is_never_used_twice(tmp_path: Path) -> None:
    kept = snapshots(tmp_path, retain=2)
    for version in range(1, 8):
        publish(kept, version)
    kept.prune()
    assert kept.next_version() == 8


def test_what_cannot_be_written_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    (kept.folder / "2").mkdir()
    (kept.folder / "2" / "in the way").touch()
    with pytest.raises(Unavailable, match="version 2 of m could not be written"):
        publish(kept, 2)
    live = kept.live()
    assert live is not None and live.version == 1
    assert not list(kept.folder.glob(".2*"))


def test_a_reader_beside_a_publisher_sees_only_whole_versions(tmp_path: Path) -> None:
    kept, done, seen = snapshots(tmp_path), threading.Event(), set()

    def read() -> None:
        reader = Snapshots(kept.folder, "m", Doorbell(tmp_path / "bell"))
        while not done.is_set():
            live = reader.live()
            if live is None:
                continue
            try:
                loaded = reader.load(live.version)
            except NotFound:
                continue  # pruned between the two reads
            assert float(loaded.parts["weights"].tensors["w"][0, 0]) == loaded.manifest.version
            seen.add(live.version)

    thread = threading.Thread(target=read)
    thread.start()
    for version in range(1, 200):
        publish(kept, version, value=version)
        if version % 10 == 0:
            kept.prune()
    done.set()
    thread.join()
    assert len(seen) > 3


def test_live_is_a_link_that_names_the_version(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    assert str((kept.folder / "LIVE").readlink()) == "1"


@pytest.mark.parametrize("damage", ["a file", "-1", "x", "../1", "1,held_until=", "1,held_until=x", "9" * 30])
def test_a_damaged_live_is_said_and_the_next_publication_replaces_it(tmp_path: Path, damage: str) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    (kept.folder / "LIVE").unlink()
    (kept.folder / "LIVE").touch() if damage == "a file" else (kept.folder / "LIVE").symlink_to(damage)
    with pytest.raises(CorruptSnapshot, match="LIVE"):
        kept.live()
    assert kept.live_until("r") == -1
    publish(kept, kept.next_version())
    live = kept.live()
    assert live is not None and live.version == 2


def test_a_publication_under_way_does_not_undo_a_roll_back(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    publish(kept, 2)
    decided_before = manifest(3, 20)  # learned no more than what was live when it was solved
    kept.roll_back(1, "r")
    kept.publish(state(3.0), decided_before)
    live = kept.live()
    assert live is not None and live.version == 1
    publish(kept, 4)
    live = kept.live()
    assert live is not None and live.version == 4


def test_a_version_of_other_options_cannot_be_rolled_back_to(tmp_path: Path) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    with pytest.raises(Conflict, match="other options"):
        kept.roll_back(1, "another recipe")
    kept.publish(state(2.0), manifest(2, 3, recipe="another recipe"))
    live = kept.live()
    assert live is not None and live.version == 2, "what is live was of another recipe, so anything of ours is better"


@pytest.mark.parametrize(
    ("name", "percent"), [("latest", 0), ("live", 0), ("previous", 0), ("stable", 5), ("no.label", 0), ("", 0)]
)
def test_a_label_that_cannot_be_given_is_refused_whoever_gives_it(tmp_path: Path, name: str, percent: float) -> None:
    kept = snapshots(tmp_path)
    publish(kept, 1)
    with pytest.raises(BadInput):
        kept.set_label(name, Labelled(1, percent))
    assert kept.labels() == {}
    kept.set_label("canary", Labelled(1, 5))
    assert kept.labels() == {"canary": Labelled(1, 5)}
