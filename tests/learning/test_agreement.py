"""Several learners on one store, each with a folder of its own: they agree on versions, whoever is first."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.models import Example
from online.schemas.events import Event
from online.snapshots.agreed import Publication
from online.snapshots.divergence import read_divergence
from online.snapshots.labels import LabelTarget
from online.snapshots.roll_back import Freeze
from online.state.version_control import VersionControl
from online.store.publications import StoredPublications, load_serving
from tests.learning.scene import Scene, vector_event, vector_events


class Replica(Scene):
    """One of several scenes on one store."""

    def kill_and_start(self) -> None:
        self.learner.publisher.settle_disk_write()
        self.learner = self.start_learner(replica=self.workspace.replica)

    def step(self) -> None:
        self.learner.step()

    def follow(self) -> None:
        """Step until this replica serves what the store says, and that is the whole log."""
        for _ in range(1_000):
            self.learner.publisher.agreement.look(is_due=True)  # type: ignore[union-attr]
            self.learner.step()
            if self.served() == served_by_store(self) and self.live_until() == self.stream.head():
                return
        raise AssertionError(f"{self.served()} is served, and not {served_by_store(self)}")

    def served(self) -> tuple[int, str]:
        live = self.snapshots.folder.live()
        return (0, "") if live is None else (live.version, self.snapshots.folder.manifest(live.version).state_sha256)

    @property
    def versions(self) -> VersionControl:
        return VersionControl(self.snapshots, self.workspace.store)

    def publications(self) -> list[Publication]:
        """The oldest first."""
        return self.workspace.store.read(lambda connection: StoredPublications(connection, "m").list(1_000))[::-1]


def served_by_store(replica: Replica) -> tuple[int, str]:
    state = replica.workspace.store.read(lambda connection: load_serving(connection, "m"))
    if state is None or not state.live:
        return 0, ""
    found = replica.workspace.store.read(lambda connection: StoredPublications(connection, "m").find(state.live))
    assert found is not None
    return state.live, found.state_sha256


@pytest.fixture
def replicas(tmp_path: Path, postgres_url: str) -> "Iterator[list[Replica]]":
    opened = [Replica(tmp_path / f"replica-{number}", store=postgres_url) for number in range(3)]
    yield opened
    for replica in opened:
        replica.workspace.store.close()


def append(replica: Replica, *events: Event) -> None:
    for event in events:
        replica.stream.append(event)


def test_whoever_is_first_publishes_and_the_others_adopt_its_number_and_have_its_bytes(replicas: list[Replica]) -> None:
    first, second, third = replicas
    append(first, *vector_events(5))
    for replica in replicas:
        replica.follow()
    assert first.served()[0] == second.served()[0] == third.served()[0] == 2  # after one of nothing
    manifests = [replica.snapshots.folder.manifest(2) for replica in replicas]
    assert len({(each.state_sha256, each.weights_sha256, each.created_at, each.parent) for each in manifests}) == 1
    assert first.fingerprint() == first.fingerprint_without()


@pytest.mark.parametrize("seed", range(4))
def test_replicas_that_are_killed_at_random_have_the_same_versions_and_the_state_of_one_process(
    replicas: list[Replica], seed: int
) -> None:
    draw = random.Random(seed)
    events = vector_events(120)
    while events:
        replica = draw.choice(replicas)
        match draw.randrange(8):
            case 0:
                replica.kill_and_start()
            case 1 | 2:
                append(replica, *events[: draw.randrange(1, 5)])
                del events[:4]
            case _:
                replica.step()
    for replica in replicas:
        replica.follow()
    assert len({replica.served() for replica in replicas}) == 1
    assert len({replica.fingerprint() for replica in replicas}) == 1
    assert replicas[0].fingerprint() == replicas[0].fingerprint_without()
    assert replicas[0].live_until() == replicas[0].stream.head()
    published = replicas[0].publications()
    places = [each.place for each in published]
    assert places == sorted(set(places)), "a version was published twice, or an older state after a newer one"
    assert [each.parent for each in published[1:]] == [each.version for each in published[:-1]]


def test_a_replica_learns_exactly_until_the_version_that_another_has_published(replicas: list[Replica]) -> None:
    first, second, _ = replicas
    append(first, *vector_events(10))
    first.follow()
    append(first, *vector_events(10, start=10))
    second.learner.publisher.agreement.look(is_due=True)  # type: ignore[union-attr]
    second.step()
    assert second.served() == first.served() and second.learner.training.learned_until == 10
    second.follow()
    first.follow()
    assert second.served() == first.served() and second.live_until() == 20


def test_a_replica_whose_state_differs_publishes_no_more(replicas: list[Replica]) -> None:
    first, second, third = replicas
    append(first, *vector_events(4))
    for replica in replicas:
        replica.follow()
    stranger = vector_event("x", "b", 99)
    second.learner.training.model.learn([Example(4, "label", stranger.features, "a")])  # as a fault of its processor
    append(first, *vector_events(4, start=4))
    first.follow()
    second.learner.publisher.agreement.look(is_due=True)  # type: ignore[union-attr]
    second.step()
    divergence = second.learner.publisher.agreement.divergence  # type: ignore[union-attr]
    assert divergence is not None and divergence.learned_until == 8 and divergence.ours != divergence.published
    assert read_divergence(second.snapshots.folder.path) == divergence, "the servers of the replica cannot report it"
    append(first, *vector_events(4, start=8))
    for _ in range(20):
        second.step()
    third.follow()
    assert served_by_store(third)[1] == third.fingerprint() == third.fingerprint_without()
    assert second.served()[0] < third.served()[0]
    second.kill_and_start()
    assert read_divergence(second.snapshots.folder.path) is None, "a learner that starts again has not diverged yet"


def test_a_roll_back_a_freeze_and_a_label_of_one_replica_are_those_of_all(replicas: list[Replica]) -> None:
    first, second, third = replicas
    append(first, *vector_events(4))
    first.follow()
    second.follow()
    old, _ = first.served()
    append(first, *vector_events(4, start=4))
    for replica in replicas:
        replica.follow()
    new, _ = first.served()
    recipe = first.learner.recipe

    second.versions.set_label("stable", LabelTarget(new))
    second.versions.roll_back(old, recipe, Freeze("2026-01-01T00:00:00+00:00", "a bad batch"))
    for replica in (first, second):
        replica.versions.catch_up(recipe)
        assert replica.served()[0] == old
        frozen = replica.snapshots.control.frozen()
        assert frozen is not None and frozen.reason == "a bad batch"
        assert replica.snapshots.labels.read() == {"stable": LabelTarget(new)}
    third.versions.catch_up(recipe)
    assert third.snapshots.control.frozen() is not None

    first.versions.thaw(recipe)  # the roll back is still in force
    for replica in replicas:
        replica.versions.catch_up(recipe)
    for replica in (first, second):
        replica.step()
        assert replica.served()[0] == old, "an event that teaches nothing has ended the roll back"
    append(third, vector_event("later", "a", 7))
    for replica in replicas:
        replica.follow()
    assert len({replica.served() for replica in replicas}) == 1 and first.served()[0] > new
    first.versions.delete_label("stable")
    second.versions.catch_up(recipe)
    assert not second.snapshots.labels.read()


def test_the_versions_of_a_folder_from_before_there_were_replicas_are_taken_over(
    tmp_path: Path, postgres_url: str
) -> None:
    alone = Replica(tmp_path / "alone", store=postgres_url)
    alone.learn(*vector_events(6))
    served = alone.served()
    with alone.workspace.store.writer.begin() as connection:
        connection.exec_driver_sql("DELETE FROM publication")
        connection.exec_driver_sql("DELETE FROM serving")
    alone.snapshots.forget_agreement()
    alone.kill_and_start()
    assert served_by_store(alone) == served == alone.served()
    joined = Replica(tmp_path / "joined", store=postgres_url)
    joined.follow()
    assert joined.served() == served


def test_other_options_take_over_and_the_former_ones_publish_no_more(tmp_path: Path, postgres_url: str) -> None:
    before = Replica(tmp_path / "before", store=postgres_url)
    before.learn(*vector_events(6))
    after = Replica(tmp_path / "after", options={**before.options, "scale": 8.0}, store=postgres_url)
    after.follow()
    append(before, *vector_events(2, start=6))
    for _ in range(10):
        before.step()
    after.follow()
    recipes = {each.version: each.recipe for each in after.publications()}
    assert recipes[after.served()[0]] == after.learner.recipe != before.learner.recipe
    assert recipes[max(recipes)] == after.learner.recipe
