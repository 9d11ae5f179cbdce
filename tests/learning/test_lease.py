"""A model whose kind is not exact: one replica learns it at a time, and another takes over where that one ends."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from online.errors import LeaseLost
from online.learning.building import create_lease
from online.learning.lease import DURATION_S, POLL_S, LearnerLease
from online.learning.process import run_learner
from online.models import Example, Options
from online.snapshots.agreed import Publication
from online.store.leases import check_lease, list_holders, prolong_lease, release_lease, take_lease
from online.store.publications import StoredPublications
from tests.learning.scene import Scene, vector_events
from tests.support import until

OPTIONS: Options = {"input": "vector", "size": 3}
SHORT_S = 0.1


@pytest.fixture
def scenes(tmp_path: Path, postgres_url: str) -> Iterator[list[Scene]]:
    opened = [Scene(tmp_path / name, "logistic", OPTIONS, store=postgres_url) for name in ("first", "second")]
    yield opened
    for scene in opened:
        scene.workspace.store.close()


def lease_of(scene: Scene, duration_s: float = DURATION_S) -> LearnerLease:
    return LearnerLease(scene.workspace.store, "m", scene.workspace.replica, duration_s)


def append(scene: Scene, count: int) -> None:
    for event in vector_events(count, start=scene.stream.head()):
        scene.stream.append(event)


def publications(scene: Scene) -> list[Publication]:
    """The oldest first."""
    return scene.workspace.store.read(lambda connection: StoredPublications(connection, "m").list(1_000))[::-1]


def last_published(scene: Scene) -> tuple[str, int]:
    newest = publications(scene)[-1]
    return newest.replica, newest.learned_until


@contextmanager
def learning(scene: Scene) -> Iterator[threading.Event]:
    """Run the learner of a replica as its process does; yield what stops it."""
    stop = threading.Event()
    thread = threading.Thread(
        target=run_learner, args=(scene.workspace, scene.workspace.settings.models[0], "cpu", stop)
    )
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()


def holder_of(scene: Scene) -> str | None:
    return scene.workspace.store.read(list_holders).get("m")


def test_one_replica_learns_and_the_other_goes_on_at_once_when_it_stops(
    scenes: list[Scene], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = scenes
    caplog.set_level("INFO", "online.learner")
    with learning(first) as stop, learning(second) as stop_second:
        holder = until(lambda: holder_of(first), what="a learner")
        append(first, 40)
        until(lambda: last_published(first) == (holder, 40), what="a version of everything")
        assert {each.replica for each in publications(first) if each.learned_until} == {holder}
        until(lambda: "standing by" in caplog.text, what="a standby")
        other = ({scene.workspace.replica for scene in scenes} - {holder}).pop()
        (stop if holder == first.workspace.replica else stop_second).set()
        began_at = time.monotonic()
        until(lambda: holder_of(first) == other, what="the other learner")
        assert time.monotonic() - began_at < DURATION_S - 1, "the lease was not given up"
        append(first, 10)
        until(lambda: last_published(first) == (other, 50), what="a version of the other learner")
        assert "diverged" not in caplog.text
    assert caplog.text.count("standing by") == 1


def test_a_standby_takes_over_once_the_lease_of_a_killed_learner_has_run_out(scenes: list[Scene]) -> None:
    first, second = scenes
    killed = lease_of(first)
    assert killed.take()
    killed.stop_prolonging()  # as with the end of its process
    began_at = time.monotonic()
    standby = lease_of(second)
    assert standby.stand_by(threading.Event())
    assert DURATION_S - 1 < time.monotonic() - began_at < DURATION_S + POLL_S + 1
    standby.release()


def test_a_lease_is_prolonged_while_a_step_takes_long(scenes: list[Scene]) -> None:
    first, second = scenes
    held, waiting = lease_of(first, 1.5), lease_of(second)
    assert held.take()
    assert not threading.Event().wait(2.5)
    assert not waiting.take()
    held.check()
    held.release()
    assert waiting.take()
    waiting.release()


def test_a_learner_whose_lease_another_has_taken_publishes_nothing(scenes: list[Scene]) -> None:
    first, second = scenes
    slow, prompt = lease_of(first, SHORT_S), lease_of(second)
    assert slow.take()
    slow.stop_prolonging()
    first.learner = first.start_learner(replica=first.workspace.replica, lease=slow)
    append(first, 10)
    while first.learner.training.learned_until < 10:
        first.learner.step()
    assert last_published(first) == (first.workspace.replica, 10), "a lease that has run out is good until it is taken"
    until(prompt.take, what="the other lease")
    second.learner = second.start_learner(replica=second.workspace.replica, lease=prompt)
    append(first, 10)
    before = publications(first)
    with pytest.raises(LeaseLost, match="nothing was published"):
        for _ in range(20):
            first.learner.step()
    assert publications(first) == before
    while second.learner.training.learned_until < 20:
        second.learner.step()
    assert last_published(second) == (second.workspace.replica, 20)
    prompt.release()


def test_a_learner_stops_when_it_finds_its_lease_taken(scenes: list[Scene], caplog: pytest.LogCaptureFixture) -> None:
    first, second = scenes
    with learning(first):
        until(lambda: holder_of(first), what="a learner")
        thief = lease_of(second)
        with second.workspace.store.writer.begin() as connection:  # as if this machine had stood still for long
            connection.exec_driver_sql("UPDATE lease SET until = 0")
        until(thief.take, what="the lease")
        until(lambda: "standing by" in caplog.text or "stopped" in caplog.text, what="the end of the learner")
        thief.release()
        until(lambda: holder_of(first) == first.workspace.replica, what="the first learner again")


def test_the_next_learner_goes_on_after_what_another_has_published(scenes: list[Scene]) -> None:
    first, second = scenes
    leases = [lease_of(first), lease_of(second)]
    assert leases[0].take()
    first.learner = first.start_learner(replica="a", lease=leases[0])
    append(first, 30)
    for _ in range(30):
        first.learner.step()
    leases[0].release()
    served = publications(first)[-1]
    assert served.learned_until == 30 and leases[1].take()
    second.learner = second.start_learner(replica="b", lease=leases[1])
    stranger = Example(0, "label", vector_events(1, start=99)[0].features, "a")
    second.learner.training.model.learn([stranger])  # so that it comes to another state, as other batches may
    for _ in range(30):
        second.learner.step()
    agreement = second.learner.publisher.agreement
    assert agreement is not None and agreement.divergence is None
    added = [each for each in publications(second) if each.version > served.version]
    assert {each.learned_until for each in added} == {30} and added[0].replica == "b", "a durable version of its own"
    append(second, 5)
    for _ in range(10):
        second.learner.step()
    assert last_published(second) == ("b", 35) and second.live_until() == 35
    leases[1].release()


def test_an_exact_kind_and_a_store_of_one_machine_need_no_lease(tmp_path: Path, postgres_url: str) -> None:
    exact, alone = Scene(tmp_path / "exact", store=postgres_url), Scene(tmp_path / "alone", "logistic", OPTIONS)
    for scene in (exact, alone):
        assert create_lease(scene.workspace, scene.workspace.settings.models[0]) is None
        scene.workspace.store.close()


def test_only_the_newest_token_is_good(scenes: list[Scene]) -> None:
    store = scenes[0].workspace.store
    with store.writer.begin() as connection:
        before = take_lease(connection, "m", "a", 0.0)
        assert before is not None
        check_lease(connection, "m", before)
        after = take_lease(connection, "m", "b", 60.0)
        assert after is not None and after.fence == before.fence + 1
        assert take_lease(connection, "m", "a", 60.0) is None and not prolong_lease(connection, "m", before, 60.0)
        release_lease(connection, "m", before)
        assert list_holders(connection) == {"m": "b"}
        with pytest.raises(LeaseLost, match="held by b with fence 2"):
            check_lease(connection, "m", before)
        again = take_lease(connection, "m", "b", 60.0)
        assert again is not None and again.fence == after.fence + 1, (
            "the process of b that had the lease before is gone"
        )
