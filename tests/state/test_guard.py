"""When the rollback guard rolls back, freezes and quarantines, and when it does nothing."""

from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest
from msgspec.structs import replace

from online.models import recipe
from online.settings import GuardMode
from online.state.guard import SUSPECT_SHARE, Guard
from online.store import now, quarantine
from tests.learning.scene import VECTOR, Scene, vector_event, vector_events


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    for start in range(0, 40, 10):
        scene.learn(*vector_events(10, start))
    yield scene
    scene.workspace.store.close()


def create_guard(scene: Scene, mode: GuardMode = "all") -> Guard:
    return Guard(scene.snapshots, scene.workspace.store, recipe("classifier", VECTOR), mode)


def quarantines_of(scene: Scene) -> list[quarantine.QuarantineRow]:
    rows: list[quarantine.QuarantineRow] = scene.workspace.store.read(
        lambda connection: quarantine.load_quarantines(connection, "m", 10)
    )
    return rows


def test_the_guard_rolls_back_the_live_version_and_freezes_the_model(scene: Scene) -> None:
    create_guard(scene).act(offset=38, since=31, reason="worse")
    assert scene.live_until() == 30
    frozen = scene.snapshots.control.frozen()
    assert frozen is not None and frozen.reason == "the guard: worse"
    assert frozen.cause == {"code": "guard", "figures": {"since": 31}}
    assert [(row.since, row.until, row.reason) for row in quarantines_of(scene)] == [(31, None, "worse")]


def test_the_guard_acts_once_however_often_it_is_called(scene: Scene) -> None:
    for offset in (38, 38, 39):
        create_guard(scene).act(offset, since=31, reason="worse")
    assert len(quarantines_of(scene)) == 1


def test_feedback_of_an_ended_quarantine_is_not_quarantined_again(scene: Scene) -> None:
    guard = create_guard(scene)
    guard.act(offset=33, since=31, reason="worse")
    row = quarantines_of(scene)[0]
    ending = scene.workspace.store.submit(lambda connection: quarantine.end(connection, row, 40, "learned", now()))
    ending.result()
    scene.snapshots.control.thaw(guard.recipe)
    guard.act(offset=38, since=36, reason="seen again when it is learned after all")
    assert scene.snapshots.control.frozen() is None and len(quarantines_of(scene)) == 1
    guard.act(offset=41, since=36, reason="worse again")
    assert scene.snapshots.control.frozen() is not None and len(quarantines_of(scene)) == 2


def test_by_default_the_guard_sets_apart_what_callers_said_that_are_not_trusted(scene: Scene) -> None:
    guard = create_guard(scene, "callers")
    guard.act(offset=40, since=1, reason="the world has changed")
    assert scene.snapshots.control.frozen() is None and not quarantines_of(scene)
    enough = ceil(40 * SUSPECT_SHARE / (1 - SUSPECT_SHARE))
    scene.learn(*(replace(event, holder=7) for event in vector_events(enough, 40)))
    assert not guard.is_suspect(1, 40 + enough - 1)  # one too few of them
    assert guard.is_suspect(1, 40 + enough) and not guard.is_suspect(1, 40)
    guard.act(offset=40 + enough, since=1, reason="worse")
    assert scene.snapshots.control.frozen() is not None and len(quarantines_of(scene)) == 1


def test_the_words_of_feedback_do_not_make_its_caller_a_suspect(scene: Scene) -> None:
    scene.learn(replace(vector_event("quoted", "a", 1), choice=',"holder":7'))
    assert not create_guard(scene, "callers").is_suspect(41, 41)
