"""Durable versions are put on the disk beside the learning, and nothing relies on one before it is there."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from online.errors import Unavailable
from online.io import atomic
from online.snapshots import publish as publication
from tests.learning.scene import Scene, vector_events


class Disk:
    """Counts the files that are put on it; it can stand still, and it can fail."""

    def __init__(self) -> None:
        self.answers, self.is_broken = threading.Event(), False
        self.answers.set()
        self.synced: list[str] = []

    def sync_file(self, path: Any) -> None:
        assert self.answers.wait(30)
        if self.is_broken:
            raise OSError(5, "Input/output error")
        self.synced.append(f"{path.parent.name}/{path.name}")
        atomic.sync_file(path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(publication, "sync_file", disk.sync_file)
    yield disk
    disk.answers.set()


@pytest.fixture
def busy_scene(scene: Scene, disk: Disk) -> Scene:
    """A learner as the service runs it, for which a durable version is due whenever none is on its way to the disk."""
    return restart(scene)


def restart(scene: Scene) -> Scene:
    scene.learner = scene.start_learner(waits_for_disk=False)
    scene.learner.publisher.finish_disk_write()
    return scene


def durable_versions(scene: Scene) -> list[int]:
    return [manifest.version for manifest in scene.snapshots.folder.manifests() if manifest.durable]


def test_learning_and_publishing_go_on_while_the_disk_stands_still(busy_scene: Scene, disk: Disk) -> None:
    disk.answers.clear()
    busy_scene.learn(*vector_events(4))
    before = durable_versions(busy_scene)
    for number in range(4, 12):
        busy_scene.learn(*vector_events(1, number))
        assert busy_scene.live_until() == number + 1
    assert durable_versions(busy_scene) == before, "one durable version at a time"
    assert busy_scene.learner.publisher.durable_until == 0
    disk.answers.set()
    busy_scene.learner.save()
    assert busy_scene.learner.publisher.durable_until == 12
    assert f"{durable_versions(busy_scene)[0]}/manifest.json" in disk.synced


def test_a_learner_that_ends_waits_for_the_disk(busy_scene: Scene, disk: Disk) -> None:
    disk.answers.clear()
    busy_scene.learn(*vector_events(4))
    ending = threading.Thread(target=busy_scene.learner.save)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    disk.answers.set()
    ending.join(30)
    assert not ending.is_alive()
    assert busy_scene.learner.publisher.durable_until == 4


def test_a_version_that_the_disk_refuses_is_followed_by_one_with_new_files(busy_scene: Scene, disk: Disk) -> None:
    disk.is_broken = True
    busy_scene.learn(*vector_events(2))
    refused = durable_versions(busy_scene)[0]
    with pytest.raises(Unavailable, match=f"version {refused} of m is not on the disk: Input/output error"):
        busy_scene.learner.publisher.finish_disk_write()
    assert busy_scene.learner.publisher.durable_until == 0
    disk.is_broken = False
    busy_scene.learner.save()
    newest = durable_versions(busy_scene)[0]
    assert newest > refused
    assert busy_scene.learner.publisher.durable_until == 2
    files = {path.name: path.stat().st_ino for path in (busy_scene.snapshots.folder.path / str(refused)).iterdir()}
    for path in (busy_scene.snapshots.folder.path / str(newest)).glob("*.*"):
        assert path.stat().st_ino != files[path.name], "a hard link to a file that may not be on the disk"


def test_a_durable_version_that_a_loss_of_power_emptied_is_passed_over(busy_scene: Scene) -> None:
    busy_scene.learn(*vector_events(3))
    busy_scene.learner.save()
    whole = busy_scene.learner.publisher.durable_until
    busy_scene.learn(*vector_events(3, 3))
    busy_scene.learner.save()
    for path in (busy_scene.snapshots.folder.path / str(durable_versions(busy_scene)[0])).iterdir():
        path.unlink()  # not written in place: older versions share the file
        path.touch()
    learner = busy_scene.start_learner()
    assert whole <= learner.training.learned_until < 6
    busy_scene.learner = learner
    busy_scene.learn()
    assert busy_scene.live_until() == 6
    assert busy_scene.fingerprint() == busy_scene.fingerprint_without()


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_live_version_that_a_loss_of_power_emptied_is_replaced_without_new_feedback(
    scene: Scene, is_durable: bool
) -> None:
    scene.learner = scene.start_learner(durable_every_s=1e9)
    scene.learn(*vector_events(6))
    if is_durable:
        scene.learner.save()
    live = scene.snapshots.folder.live()
    assert live is not None
    damaged = scene.snapshots.folder.path / str(live.version) / "weights.safetensors"
    damaged.unlink()
    damaged.touch()
    scene.snapshots = scene.workspace.snapshots("m")  # as a new process
    restart(scene)
    scene.learn()
    assert scene.learner.training.learned_until == scene.live_until() == 6
    replaced = scene.snapshots.folder.live()
    assert replaced is not None and replaced.version > live.version
    scene.snapshots.folder.load(replaced.version)


def test_a_version_that_a_killed_learner_left_beside_the_disk_is_followed_by_one_on_it(
    busy_scene: Scene, disk: Disk
) -> None:
    busy_scene.learn(*vector_events(3))
    busy_scene.learner.save()
    left = durable_versions(busy_scene)[0]
    assert busy_scene.snapshots.folder.is_on_disk(left)
    (busy_scene.snapshots.folder.path / str(left) / "on-disk").unlink()
    busy_scene.learner = busy_scene.start_learner(waits_for_disk=False)
    assert busy_scene.learner.training.learned_until == 3
    assert busy_scene.learner.publisher.durable_until == -1
    busy_scene.learner.save()
    newest = durable_versions(busy_scene)[0]
    assert newest > left and busy_scene.snapshots.folder.is_on_disk(newest)
    assert busy_scene.learner.publisher.durable_until == 3


def test_a_refused_version_is_followed_by_one_that_goes_live_in_its_place(busy_scene: Scene, disk: Disk) -> None:
    disk.is_broken = True
    busy_scene.learn(*vector_events(2))
    disk.is_broken = False
    written = busy_scene.learner.publish(durable=True, replaces=True)
    assert written is not None and busy_scene.snapshots.folder.is_on_disk(written.version)
    live = busy_scene.snapshots.folder.live()
    assert live is not None and live.version == written.version


def test_the_newest_version_on_the_disk_outlives_any_number_of_others(busy_scene: Scene, disk: Disk) -> None:
    busy_scene.snapshots.retention.retain = 2
    busy_scene.learn(*vector_events(1))
    busy_scene.learner.save()
    safe = durable_versions(busy_scene)[0]
    disk.is_broken = True
    for number in range(1, 8):
        busy_scene.learn(*vector_events(1, number))
        busy_scene.learner.publisher.settle_disk_write()
    assert len(durable_versions(busy_scene)) > 3
    busy_scene.snapshots.retention.prune()
    assert safe in durable_versions(busy_scene)
