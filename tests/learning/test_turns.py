"""A learner that takes short turns learns the same as one that takes whole batches."""

from pathlib import Path

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
