"""A learner that takes short turns learns the same as one that takes whole batches."""

from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path

import pytest

from online.models.devices.turns import LearningQuantum
from tests.learning.scene import Scene, vector_events


class SlowClock:
    """A clock on which every look takes 4 ms, so that a turn seems to last as long, whatever it learns."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.004
        return self.now


def test_short_turns_learn_the_same_as_whole_batches(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learner = scene.start_learner(quantum=LearningQuantum(8.0, SlowClock()))
    for event in vector_events(40):
        scene.stream.append(event)
    reached = list[int]()
    while scene.learner.training.learned_until < 40:
        scene.learner.step()
        reached.append(scene.learner.training.learned_until)
    assert reached[:2] == [1, 3]  # 4 ms an event at first, so that two fit into 8 ms
    assert scene.fingerprint() == scene.fingerprint_without()


@pytest.mark.parametrize(
    ("clock", "turns"),
    [
        (lambda: 0.0, [4, 8, 16, 32, 20]),  # no turn takes any time
        (map(float, count()).__next__, [4] * 20),  # each takes a second, and is not made longer
    ],
)
def test_turns_grow_while_a_learner_is_behind_and_fast(
    tmp_path: Path, clock: Callable[[], float], turns: list[int]
) -> None:
    scene = Scene(tmp_path)
    scene.learner = scene.start_learner(batch=4, clock=clock)
    for event in vector_events(80):
        scene.stream.append(event)
    reached = [0]
    while reached[-1] < 80:
        scene.learner.step()
        reached.append(scene.learner.training.learned_until)
    assert [after - before for before, after in pairwise(reached)] == turns
    assert scene.learner.turn_size.find_count(4) == 4, "it is not behind any more"
    assert scene.fingerprint() == scene.fingerprint_without()


def test_a_learner_that_is_behind_publishes_a_tenth_of_the_time(tmp_path: Path) -> None:
    now = [0.0]
    scene = Scene(tmp_path)
    scene.learner = scene.start_learner(clock=lambda: now[0], durable_every_s=1e9)
    scene.learn(*vector_events(1))
    publisher, training = scene.learner.publisher, scene.learner.training
    publisher.published_at, publisher.cost_s, publisher.durable_until = now[0], 0.1, training.learned_until
    scene.stream.append(vector_events(1, 1)[0])
    training.apply(scene.stream.read(1, 1))
    due = dict[float, bool]()
    for now[0] in (0.3, 0.9, 1.1):
        due[now[0]] = publisher.find_due(training, is_behind=True) is not None
    assert due == {0.3: False, 0.9: False, 1.1: True}
    now[0] = 0.3
    assert publisher.find_due(training) is not None, "without more events that wait, at once"
