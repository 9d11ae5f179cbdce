"""A version that answers on a device: in smaller pieces where memory is short, then on the CPU, with the same answers."""

from collections.abc import Sequence
from typing import cast

import pytest
import torch

from online.models import Answer, Model, create
from online.models.devices.fallback import Fallback
from online.serving.devices.replica import RETRY_S, ServingPlace
from tests.models.devices.fakes import LimitedMemory
from tests.models.synthetic import KNOWN, vectors

TOWER = {"input": "vector", "size": 6, "hidden": [64]}
EXAMPLES = vectors(200, 0, KNOWN)
INPUTS = [example.features for example in EXAMPLES[:100]]


class Scene:
    """A tower that has learned, and the place where it answers."""

    def __init__(self, trained: Model) -> None:
        self.trained, self.now = trained, 0.0
        self.noted, self.moves, self.created = list[Fallback](), list[str](), list[str]()
        self.place = ServingPlace("cpu:1", self.noted.append, self.moves.append, lambda: self.now)

    def create(self, device: str) -> Model:
        self.created.append(device)
        model = create("tower", TOWER, device)
        model.restore(self.trained.state())
        return model


@pytest.fixture(scope="module")
def trained() -> Model:
    model = create("tower", TOWER)
    model.learn(EXAMPLES)
    return model


@pytest.fixture
def scene(trained: Model) -> Scene:
    return Scene(trained)


def choices(answers: Sequence[Answer]) -> list[str | None]:
    return [answer.choice for answer in answers]


def test_a_version_answers_on_its_device_as_on_the_cpu(scene: Scene) -> None:
    model, replica = scene.place.load(scene.create, INPUTS[:3])
    assert replica is not None and replica.lies_on_device
    assert replica.model is model and scene.created == ["cpu:1"]
    assert choices(replica.predict(INPUTS)) == choices(scene.trained.predict(INPUTS))
    assert scene.moves == ["cpu:1"] and scene.noted == []


def test_a_place_on_the_cpu_needs_no_replica(scene: Scene) -> None:
    _, replica = ServingPlace().load(scene.create, INPUTS[:3])
    assert replica is None and scene.created == ["cpu"]


def test_answers_that_do_not_fit_at_once_are_computed_in_pieces(scene: Scene) -> None:
    _, replica = scene.place.load(scene.create, INPUTS[:3])
    assert replica is not None
    with LimitedMemory(12_000):  # bytes: 46 rows of 64 hidden numbers in float32
        answers = replica.predict(INPUTS)
    assert choices(answers) == choices(scene.trained.predict(INPUTS))
    assert replica.lies_on_device
    assert [each.to for each in scene.noted] == ["with 50 rows at once", "with 25 rows at once"]
    with LimitedMemory(12_000):
        replica.predict(INPUTS)
    assert len(scene.noted) == 2  # the size that fitted is known


class FullDevice:
    """A model whose device has no room for any answer."""

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        if inputs:
            raise torch.OutOfMemoryError("full")
        return []


def test_a_device_that_is_full_leaves_the_answers_to_the_cpu_for_a_while(scene: Scene) -> None:
    _, replica = scene.place.load(scene.create, [])
    assert replica is not None
    replica.model = cast(Model, FullDevice())
    assert choices(replica.predict(INPUTS)) == choices(scene.trained.predict(INPUTS))
    assert not replica.lies_on_device and scene.created == ["cpu:1", "cpu"]
    assert scene.moves[-1] == "cpu" and scene.noted[-1].to == "on the CPU"
    assert scene.place.device == "cpu"
    scene.now = RETRY_S
    assert scene.place.device == "cpu:1"


def test_a_version_that_does_not_fit_on_its_device_is_loaded_on_the_cpu(scene: Scene) -> None:
    def create_where_there_is_room(device: str) -> Model:
        if device != "cpu":
            raise torch.OutOfMemoryError("full")
        return scene.create(device)

    model, replica = scene.place.load(create_where_there_is_room, INPUTS[:3])
    assert replica is None
    assert choices(model.predict(INPUTS)) == choices(scene.trained.predict(INPUTS))
    assert [(each.what, each.device) for each in scene.noted] == [("loading a version", "cpu:1")]


def test_a_version_that_cannot_answer_is_refused_whatever_its_device(scene: Scene) -> None:
    with pytest.raises(ValueError):
        scene.place.load(scene.create, [b"no vector"])
    assert scene.noted == []
