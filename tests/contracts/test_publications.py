"""Which version answers: the rules of a folder without replicas, and those of the store that replicas share, are the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from online.errors import Conflict, NotFound
from online.snapshots.labels import LabelTarget
from online.snapshots.roll_back import Freeze
from online.state.version_control import VersionControl
from tests.learning.scene import Scene, vector_event, vector_events

Learn = Callable[[int], int]
FREEZE = Freeze("2026-01-01T00:00:00+00:00", "a test")


@pytest.fixture(params=["folder", "store"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    store = str(request.getfixturevalue("postgres_url")) if request.param == "store" else None
    scene = Scene(tmp_path, store=store)
    yield scene
    scene.workspace.store.close()


@pytest.fixture
def control(scene: Scene) -> VersionControl:
    return VersionControl(scene.snapshots, scene.workspace.store)


def live(scene: Scene) -> int:
    return scene.snapshots.folder.live_number()


def learn(scene: Scene, count: int) -> int:
    """Learn further events one by one; return the version that answers then."""
    for number in range(count):
        scene.learn(vector_event(f"n{scene.stream.head()}-{number}", "ab"[number % 2], number))
        scene.learner.step()
    return live(scene)


def settle(scene: Scene) -> None:
    """Let the learner read what was recorded, which teaches nothing."""
    scene.learn()
    for _ in range(3):
        scene.learner.step()


def test_a_version_that_has_learned_more_goes_live(scene: Scene) -> None:
    first = learn(scene, 2)
    assert learn(scene, 2) > first
    found = scene.snapshots.folder.live()
    assert found is not None and 0 < found.previous < found.version and found.held_until == 0


def test_a_roll_back_holds_until_something_is_taught(scene: Scene, control: VersionControl) -> None:
    old, recipe = learn(scene, 2), scene.learner.recipe
    new = learn(scene, 2)
    control.roll_back(old, recipe)
    control.set_label("stable", LabelTarget(new))
    settle(scene)
    assert live(scene) == old, "the roll back and the label are events, which teach nothing"
    found = scene.snapshots.control.last_roll_back()
    assert found is not None and found.version == old
    assert learn(scene, 1) > new


def test_a_freeze_holds_what_answers_and_a_thaw_goes_on(scene: Scene, control: VersionControl) -> None:
    before = learn(scene, 2)
    control.freeze(FREEZE)
    assert scene.snapshots.control.frozen() == FREEZE
    scene.stream.append(vector_event("while frozen", "a", 1))
    scene.learner.step()
    assert live(scene) == before
    control.thaw(scene.learner.recipe)
    assert scene.snapshots.control.frozen() is None
    settle(scene)
    assert live(scene) > before


def test_a_roll_back_that_freezes_is_held_by_a_thaw_that_holds_and_ended_by_one_that_does_not(
    scene: Scene, control: VersionControl
) -> None:
    old, recipe = learn(scene, 2), scene.learner.recipe
    new = learn(scene, 2)
    control.roll_back(old, recipe, FREEZE)
    control.thaw(recipe)
    assert live(scene) == old
    control.roll_back(old, recipe, FREEZE)
    control.thaw(recipe, held=False)
    assert live(scene) >= new


def test_labels_name_versions_and_are_deleted(scene: Scene, control: VersionControl) -> None:
    version = learn(scene, 2)
    control.set_label("canary", LabelTarget(version, 5.0))
    assert scene.snapshots.labels.read() == {"canary": LabelTarget(version, 5.0)}
    control.set_label("canary", LabelTarget(learn(scene, 1), 6.0))
    assert scene.snapshots.labels.resolve("canary") == live(scene)
    control.delete_label("canary")
    assert not scene.snapshots.labels.read()
    with pytest.raises(NotFound, match="no version of m has the label 'canary'"):
        control.delete_label("canary")


def test_what_is_not_possible_is_refused_and_recorded_nowhere(scene: Scene, control: VersionControl) -> None:
    version = learn(scene, 2)
    head = scene.stream.head()
    with pytest.raises(NotFound, match="has no version 99"):
        control.roll_back(99, scene.learner.recipe)
    with pytest.raises(Conflict, match="another kind or with other options"):
        control.roll_back(version, "another recipe")
    with pytest.raises(NotFound, match="has no version 99"):
        control.set_label("stable", LabelTarget(99))
    assert scene.stream.head() == head and live(scene) == version


def test_each_change_is_an_event_and_what_was_not_carried_out_is_carried_out_later(
    scene: Scene, control: VersionControl
) -> None:
    """As by a process that is killed after the commit."""
    version, head = learn(scene, 2), scene.stream.head()
    lost = VersionControl(scene.snapshots, scene.workspace.store)
    lost.finish = lambda recorded, change, recipe: None  # type: ignore[method-assign]
    lost.freeze(FREEZE)
    lost.set_label("stable", LabelTarget(version))
    assert [each.kind for each in scene.stream.read(head, 10)] == ["control", "control"]
    assert scene.snapshots.control.frozen() is None and not scene.snapshots.labels.read()
    control.catch_up(scene.learner.recipe)
    assert scene.snapshots.control.frozen() == FREEZE
    assert scene.snapshots.labels.read() == {"stable": LabelTarget(version)}
    scene.snapshots.control.thaw(scene.learner.recipe)
    if not scene.workspace.store.is_shared:
        control.catch_up(scene.learner.recipe)
        assert scene.snapshots.control.frozen() is None, "it is carried out once"


def test_a_log_with_changes_teaches_what_it_teaches_without_them(scene: Scene, control: VersionControl) -> None:
    scene.learn(*vector_events(10))
    control.set_label("stable", LabelTarget(live(scene)))
    control.freeze(FREEZE)
    control.thaw(scene.learner.recipe)
    scene.learn(*vector_events(10, start=10))
    assert scene.fingerprint() == scene.fingerprint_without()


def test_a_label_does_not_take_the_place_of_the_version_before(scene: Scene, control: VersionControl) -> None:
    """Going back to the one before must change what answers."""
    learn(scene, 1)
    learn(scene, 1)
    found = scene.snapshots.folder.live()
    assert found is not None
    control.set_label("stable", LabelTarget(found.version))
    settle(scene)
    after = scene.snapshots.folder.live()
    assert after is not None and after.previous == found.previous
    previous = scene.snapshots.folder.manifest(after.previous)
    assert previous.state_sha256 != scene.snapshots.folder.manifest(after.version).state_sha256
