"""Learning stands still if events wait and nothing is learned: not while a long step moves on, and not while it is frozen."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from online.serving.live import LiveModel
from online.serving.monitoring.standstill import LearningPosition, StandstillWatch
from online.snapshots.progress import LearningProgress, ProgressWriter, read_progress

AFTER_S = 60.0


@dataclass
class Scene:
    """A watch whose clock moves by 10 s from one look to the next."""

    now: float = 0.0
    shown: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        live = SimpleNamespace(snapshots=SimpleNamespace(model="m"))
        self.watch = StandstillWatch(
            cast(LiveModel, live), lambda: 0, AFTER_S, self.shown.append, clock=lambda: self.now
        )

    def look(self, times: int, head: int, learned_until: int, *progress: Any, is_frozen: bool = False) -> list[float]:
        """Return for how long learning stood still at each look. progress: run and number; a number grows with each look."""
        found = list[float]()
        for turn in range(times):
            self.now += 10
            made = (
                LearningProgress(progress[0], progress[1] + turn * (progress[2] if progress[2:] else 0))
                if progress
                else LearningProgress()
            )
            self.watch.observe(LearningPosition(head, learned_until, made, is_frozen))
            found.append(self.watch.stood_s)
        return found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_is_noticed_after_a_minute_said_once_and_ends_with_the_next_version(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert scene.look(20, 100, 100) == [0.0] * 20
    assert scene.look(8, 125, 100) == [0.0] * 5 + [60.0, 70.0, 80.0]
    assert scene.watch.describe() == "25 events wait, and nothing was learned for 80 s"
    assert scene.look(1, 125, 110) == [0.0] and scene.shown[-2:] == [80.0, 0.0]
    assert [record.message for record in caplog.records] == [
        "learning stands still",
        "learning stands still: recovered",
    ]


def test_a_long_step_that_moves_on_is_no_standstill(scene: Scene) -> None:
    assert max(scene.look(50, 100, 10, "run", 1_000, 256)) == 0
    assert max(scene.look(8, 100, 10, "run", 1_000 + 49 * 256)) > 0, "it has stopped"


def test_a_learner_that_fails_again_and_again_at_one_place_makes_no_progress(scene: Scene) -> None:
    scene.look(1, 100, 50, "first", 5_000)
    found = [scene.look(1, 100, 50, f"run {n}", learned)[0] for n in range(20) for learned in (100, 200)]
    assert found[:6] == [0.0] * 6 and found[-1] > 300


def test_a_frozen_model_does_not_stand_still_and_is_given_its_time_afterwards(scene: Scene) -> None:
    assert max(scene.look(20, 100, 50, is_frozen=True)) == 0
    assert scene.look(6, 100, 50) == [0.0] * 5 + [60.0]


def test_feedback_after_a_long_silence_is_given_its_time(scene: Scene) -> None:
    scene.look(100, 100, 100)
    assert scene.look(5, 101, 100) == [0.0] * 5


def test_a_log_that_went_back_in_time_begins_again(scene: Scene) -> None:
    scene.look(1, 100, 100)
    scene.watch.reset()
    assert scene.look(5, 60, 20) == [0.0] * 5
    assert scene.look(1, 60, 25) == [0.0]


def test_a_learner_writes_its_progress_at_most_once_a_second(tmp_path: Path) -> None:
    times: Iterator[float] = iter([0.0, 0.4, 0.9, 1.1, 1.2])
    writer = ProgressWriter(tmp_path, lambda: next(times))
    assert read_progress(tmp_path) == LearningProgress()
    for expected in (0, 0, 30, 30):
        writer.add(10)
        assert read_progress(tmp_path).learned == expected
    assert read_progress(tmp_path).run == writer.run
    (tmp_path / "progress").write_text("?")
    assert read_progress(tmp_path) == LearningProgress()
