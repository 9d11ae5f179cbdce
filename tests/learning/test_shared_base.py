"""Contents of events expire where several replicas share the store: none of them loses what the events taught."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from online.errors import LearningLost
from online.state import shared_base
from tests.learning.expiry_scene import NOW, OLD, YOUNG, ExpiryScene
from tests.learning.test_base_building import FITTED, make_vector

Join = Callable[[str], ExpiryScene]
OLD_COUNT, COUNT = 20, 30


@pytest.fixture
def join(tmp_path: Path, postgres_url: str) -> Iterator[Join]:
    scenes: list[ExpiryScene] = []

    def join(name: str) -> ExpiryScene:
        scenes.append(ExpiryScene(tmp_path / name, "classifier", FITTED, store=postgres_url))
        return scenes[-1]

    yield join
    for scene in scenes:
        scene.workspace.store.close()


@pytest.fixture
def expected(tmp_path: Path) -> str:
    """The state of one service whose events do not expire."""
    alone = ExpiryScene(tmp_path / "alone", "classifier", FITTED)
    teach(alone)
    alone.catch_up()
    alone.workspace.store.close()
    return alone.fingerprint()


def teach(scene: ExpiryScene) -> None:
    for n in range(COUNT):
        scene.give(make_vector(n), OLD if n < OLD_COUNT else YOUNG)


def check(scene: ExpiryScene, expected: str) -> None:
    assert scene.fingerprint() == expected and scene.learner.training.missing_until == 0


def test_a_replica_that_joins_begins_with_the_base_of_another(join: Join, expected: str) -> None:
    first = join("first")
    teach(first)
    first.expire()
    assert first.kinds().count("void") == OLD_COUNT
    joined = join("joined")
    joined.catch_up()
    check(joined, expected)
    assert joined.base() == first.base() is not None


def test_a_replica_without_a_base_of_its_own_takes_over_that_of_another(join: Join, expected: str) -> None:
    first, second = join("first"), join("second")
    teach(first)
    second.learner.bases.retention = None  # it makes none
    second.catch_up()
    first.expire()
    check(second, expected)
    second.damage_versions()
    second.learner = second.start_learner()
    second.catch_up()
    check(second, expected)


def test_the_base_outlives_every_state_folder(join: Join, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_base, "CHUNK_BYTES", 64)
    first = join("first")
    teach(first)
    first.expire()
    with first.workspace.store.writer.begin() as connection:
        for table in ("publication", "serving"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    alone = join("another")
    alone.catch_up()
    check(alone, expected)


def test_a_damaged_base_is_replaced_by_that_of_the_store(join: Join, expected: str) -> None:
    scene = join("first")
    teach(scene)
    scene.expire()
    scene.damage_versions()
    base = scene.base()
    assert base is not None
    for path in (scene.snapshots.base().folder.path / str(base.version)).glob("*.safetensors"):
        path.write_bytes(b"damaged")
    scene.learner = scene.start_learner()
    scene.catch_up()
    check(scene, expected)


def test_nothing_is_removed_before_the_store_has_the_base(join: Join) -> None:
    scene = join("first")
    teach(scene)
    scene.catch_up()
    with scene.workspace.store.writer.begin() as connection:
        connection.exec_driver_sql("DELETE FROM base")
    scene.remove()
    assert scene.base() is not None and "void" not in scene.kinds()
    scene.learner = scene.start_learner()  # as after a kill between the folder and the store
    scene.remove()
    assert scene.kinds().count("void") == OLD_COUNT


def test_a_learner_that_is_behind_goes_on_from_the_base(join: Join, expected: str) -> None:
    first, behind = join("first"), join("behind")
    teach(first)
    first.expire()
    with pytest.raises(LearningLost, match="have expired"):
        behind.catch_up()
    behind.learner.resume()  # as `run` does
    behind.catch_up()
    check(behind, expected)


def test_one_of_two_bases_that_are_made_at_once_is_that_of_both(join: Join, expected: str) -> None:
    first, second = join("first"), join("second")
    teach(first)
    for scene in (first, second):
        while scene.learner.bases.building is None or scene.learner.training.learned_until < COUNT:
            scene.learner.step()
    first.expire()
    second.catch_up()
    assert first.kinds().count("void") == OLD_COUNT
    for scene in (first, second):
        scene.learner = scene.start_learner()
        check(scene, expected)
    assert first.base() == second.base() is not None


def test_the_next_base_may_be_made_by_another_replica(join: Join, expected: str) -> None:
    first, second = join("first"), join("second")
    teach(first)
    first.expire()
    second.learner.resume()
    second.at = first.at = NOW + timedelta(days=40)
    second.expire()
    assert second.kinds().count("void") == COUNT
    first.learner = first.start_learner()
    check(first, expected)
    base = first.base()
    assert base is not None and base == second.base() and base.learned_until == COUNT and base.parent == 1
