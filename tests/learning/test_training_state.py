"""What a learner has learned so far: a model, the drift detectors, held-out feedback, and the offset."""

import pytest

from online.learning.training_state import TrainingState
from online.schemas.events import Event
from tests.learning.scene import Scene, vector_events


def entries(scene: Scene, count: int) -> list[Event]:
    for event in vector_events(count):
        scene.stream.append(event)
    return scene.stream.read(0, count)


@pytest.mark.parametrize("cut", [0, 1, 7, 19, 20])
def test_entries_teach_the_same_however_they_are_cut(scene: Scene, cut: int) -> None:
    """Also where a read finds none, as while the copy in Redis is written again."""
    read, whole, parts = entries(scene, 20), create(scene), create(scene)
    whole.apply(read)
    for part in (read[:cut], [], read[cut:], []):
        parts.apply(part)
    assert parts.learned_until == whole.learned_until == 20
    assert parts.log_digest == whole.log_digest == read[-1].digest
    assert parts.model.fingerprint() == whole.model.fingerprint()
    assert [*parts.held_out] == [*whole.held_out] and len(whole.held_out)


def test_no_entries_change_nothing(scene: Scene) -> None:
    training = create(scene)
    training.apply([])
    assert (training.learned_until, training.log_digest) == (0, "")


def create(scene: Scene) -> TrainingState:
    return TrainingState(scene.kind, scene.options, "cpu", history=lambda until: ())
