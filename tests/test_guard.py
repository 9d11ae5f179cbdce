"""What the guard does, and when it does nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from online import quarantine
from online.guard import Guard
from online.models import recipe
from online.store import now
from tests.learning.test_learner import VECTOR, Scene, events


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    for start in range(0, 40, 10):
        made.learn(*events(10, start))
    yield made
    made.workspace.store.close()


def guard_of(scene: Scene) -> Guard:
    return Guard(scene.snapshots, scene.workspace.store, recipe("classifier", VECTOR))


def set_apart(scene: Scene) -> list[quarantine.QuarantineRow]:
    rows: list[quarantine.QuarantineRow] = scene.workspace.store.read(
        lambda connection: quarantine.quarantines_of(connection, "m", 10)
    )
    return rows


def test_what_is_live_is_taken_back_and_nothing_more_is_learned(scene: Scene) -> None:
    guard_of(scene).act(offset=38, since=31, reason="worse")
    assert scene.live_until() == 30
    frozen = scene.snapshots.frozen()
    assert frozen is not None and frozen.reason == "the guard: worse"
    assert [(row.since, row.until, row.reason) for row in set_apart(scene)] == [(31, None, "worse")]


def test_the_guard_acts_once_however_often_it_is_told(scene: Scene) -> None:
    for offset in (38, 38, 39):
        guard_of(scene).act(offset, since=31, reason="worse")
    assert len(set_apart(scene)) == 1


def test_what_somebody_has_judged_is_not_set_apart_again(scene: Scene) -> None:
    guard = guard_of(scene)
    guard.act(offset=33, since=31, reason="worse")
    row = set_apart(scene)[0]
    ended = scene.workspace.store.submit(lambda connection: quarantine.end(connection, row, 40, "learned", now()))
    ended.result()
    scene.snapshots.thaw(guard.recipe)
    guard.act(offset=38, since=36, reason="seen again when it is learned after all")
    assert scene.snapshots.frozen() is None and len(set_apart(scene)) == 1
    guard.act(offset=41, since=36, reason="worse again")
    assert scene.snapshots.frozen() is not None and len(set_apart(scene)) == 2
